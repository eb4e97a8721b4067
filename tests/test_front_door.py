"""The front doors: what they have, what an import of them costs, and that the docs need nothing behind them."""

import ast
import subprocess
import sys
import types
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

import cdk
from tests.docs.page import BLOCK, DOCS

DOORS = ("cdk", "cdk.rest", "cdk.spark", "cdk.state", "cdk.sync", "cdk.testing")
LAZY = ("cdk.rest", "cdk.spark", "cdk.state", "cdk.sync", "cdk.testing")

HEAVY = {
    "requests",
    "requests_cache",
    "pyspark",
    "pyarrow",
    "deltalake",
    "rich",
    "click",
    "jinja2",
    "yaml",
    "jsonschema",
}


def test_everything_at_the_front_door_says_what_it_is() -> None:
    aliases = {"Item", "Json", "JsonSchema", "Position", "Record"}

    assert [n for n in cdk.__all__ if n not in aliases and not getattr(cdk, n).__doc__] == []


def test_importing_the_kit_loads_nothing_heavy() -> None:
    program = "import cdk, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert HEAVY & set(loaded.stdout.split()) == set()


@pytest.mark.parametrize("door", DOORS)
def test_a_front_door_lists_its_names_once_in_order_and_has_them(door: str) -> None:
    module = import_module(door)
    order = sorted(module.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))

    assert module.__all__ == order
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []


@pytest.mark.parametrize("door", ["cdk", "cdk.testing"])
def test_a_front_door_shows_no_name_that_it_does_not_list(door: str) -> None:
    module = import_module(door)
    visible = [name for name, value in vars(module).items() if not isinstance(value, types.ModuleType)]
    public = {name for name in visible if not name.startswith("_")} - {"TYPE_CHECKING", "lazy_names"}

    assert public <= set(module.__all__)


@pytest.mark.parametrize("door", LAZY)
def test_a_lazy_front_door_has_no_other_names(door: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{door}' has no attribute 'nothing'"):
        import_module(door).nothing  # noqa: B018


@pytest.mark.parametrize(
    "page",
    [*sorted(DOCS.rglob("*.md")), DOCS.parent / "README.md"],
    ids=lambda page: str(page.relative_to(DOCS.parent)),
)
def test_no_page_imports_from_behind_a_front_door(page: Path) -> None:
    programs = [ast.parse(dedent(text)) for kind, text in BLOCK.findall(page.read_text()) if kind == "python"]
    nodes = [node for program in programs for node in ast.walk(program)]
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported = [
        (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "cdk"
        for alias in node.names
    ]

    assert {name for name in plain if name.partition(".")[0] == "cdk"} <= set(DOORS)
    assert [
        f"from {module} import {name}"
        for module, name in imported
        if f"{module}.{name}" not in DOORS and (module not in DOORS or name not in import_module(module).__all__)
    ] == []


def test_a_sync_has_a_front_door_that_loads_nothing_until_it_is_used() -> None:
    program = "import sys, cdk.sync; loaded = {*sys.modules}; [getattr(cdk.sync, n) for n in cdk.sync.__all__]"
    program += "; print(*loaded); print(*sys.modules)"
    before, after = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.splitlines()

    assert HEAVY & set(before.split()) == set()
    assert HEAVY & set(after.split()) >= {"deltalake", "pyarrow"}
    assert "pyspark" not in after.split()


@pytest.mark.parametrize(
    ("arguments", "printed", "without"),
    [
        (["read", "--connector", "tests/samples.py"], '"type":"RECORD"', {"yaml", "jinja2"}),
        (
            ["spec", "--manifest-path", "connectors/datasette/manifest.yaml"],
            '"type":"SPEC"',
            {
                "jinja2",
                "cdk.declarative.components.auth.jwt",
                "calendar",
                "difflib",
                "html",
                "pickle",
                "subprocess",
                "zoneinfo",
            },
        ),
    ],
)
def test_what_a_connector_does_not_need_is_not_imported(arguments: list[str], printed: str, without: set[str]) -> None:
    """Importing pydantic alone would take a fifth of a start, or a third with models of all components."""
    program = dedent("""
        import atexit, sys
        from cdk.__main__ import main

        atexit.register(lambda: print(*sys.modules, file=sys.stderr))
        main()
    """)
    run = subprocess.run([sys.executable, "-c", program, *arguments], check=False, capture_output=True, text=True)

    assert printed in run.stdout
    assert {"pydantic", "rich", "jsonschema", *without} & set(run.stderr.split()) == set()
