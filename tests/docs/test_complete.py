"""The docs leave nothing out, and what they name exists."""

import ast
import builtins
import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any, get_args, get_origin

import click
import pytest
from pydantic import BaseModel

import cdk
import cdk.rest
import cdk.testing
from cdk import StateConflict
from cdk.cli import app
from cdk.cli.app import completion
from cdk.lake.arrow.columns import table_schema
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.storage.run_lock import only_run
from cdk.sync.settings.pipeline_file import Pipeline
from tests.docs.page import BLOCK, DOCS

ROOT = DOCS.parent
PAGES = [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PLACE = re.compile(r"`((?:cdk|connectors|docs|tests|benchmarks)/[\w./-]+)`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
WRITTEN = [page for page in PAGES if page.name != "CHANGELOG.md"]
"""The pages on what there is; what was has other names."""
CLASS = re.compile(r"`([A-Z][a-z]\w*)(?:\([^`]*\)|(?:\.\w+)+)?`")
FULL_NAME = re.compile(r"`(cdk(?:\.\w+)+)(?:\([^`]*\))?`")
ENTRY_POINTS = {"cdk.connectors", "cdk.state_stores"}
OTHERS = {"Location", "TimeoutStopSec"}
"""Names of HTTP and of systemd."""
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


COMMANDS = [*app.PROTOCOL_COMMANDS, completion, *(command.load() for command in app.LAZY_COMMANDS)]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_and_option_is_in_the_reference(command: click.Command) -> None:
    said = section(DOCS / "reference" / "cli.md", f"spark-cdk {command.name}")
    flags = [flag for option in command.params if isinstance(option, click.Option) for flag in option.opts]
    arguments = [argument.name.upper() for argument in command.params if isinstance(argument, click.Argument)]

    assert [flag for flag in [*flags, *arguments] if f"`{flag}" not in said] == []
    assert f"spark-cdk {command.name} --help" in said


@pytest.mark.parametrize("module", [cdk, cdk.rest, cdk.testing], ids=lambda module: module.__name__)
def test_everything_at_a_front_door_says_what_it_is(module: ModuleType) -> None:
    public = {name: getattr(module, name) for name in module.__all__}
    made = {name: value for name, value in public.items() if inspect.isclass(value) or inspect.isroutine(value)}

    assert [name for name, value in made.items() if not _own_docstring(value)] == []


def test_every_name_for_authors_of_http_connectors_has_a_task_in_its_page() -> None:
    overview = (DOCS / "reference" / "python" / "rest.md").read_text()

    assert [name for name in cdk.rest.__all__ if f"`{name}`" not in overview] == []


def test_every_key_of_a_pipeline_is_in_its_page() -> None:
    page = (DOCS / "how-to" / "sync-into-delta.md").read_text()

    assert [key for key in _keys(Pipeline) if f"`{key}`" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        place, _, anchor = link.partition("#")
        target = (page.parent / place) if place else page
        found = "://" in link or (target.exists() and (not anchor or anchor in _anchors(target)))
        broken.extend([] if found else [link])

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    assert [place for place in PLACE.findall(page.read_text()) if not (ROOT / place).exists()] == []


def test_classes_that_are_named_exist() -> None:
    known = {
        name for folder in ("cdk", "connectors") for path in (ROOT / folder).rglob("*.py") for name in _names(path)
    }
    missing = []
    for page in WRITTEN:
        own = {name for kind, code in BLOCK.findall(page.read_text()) if kind == "python" for name in _defined(code)}
        named = CLASS.findall(FENCE.sub("", page.read_text()))
        missing += [(page.name, name) for name in named if name not in known | own | OTHERS | vars(builtins).keys()]

    assert missing == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_in_full_exist(page: Path) -> None:
    names = set(FULL_NAME.findall(FENCE.sub("", page.read_text()))) - ENTRY_POINTS

    assert [name for name in sorted(names) if not _is_there(name)] == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_examples_import_exists(page: Path) -> None:
    codes = [code for kind, code in BLOCK.findall(page.read_text()) if kind == "python"]
    names = [name for code in codes for node in ast.walk(ast.parse(code)) for name in _used(node)]

    assert [name for name in names if not _is_there(name)] == []


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    further = DOCS / "reference" / "manifest" / "index.md"
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in (index, further)
        for link in LINK.findall(page.read_text())
    }

    assert set(DOCS.rglob("*.md")) - {index} - linked == set()


def test_a_second_sync_is_refused_with_the_words_of_the_page(tmp_path: Path) -> None:
    with only_run(tmp_path, "shop"), pytest.raises(StateConflict) as refused, only_run(tmp_path, "shop"):
        pass
    words = str(refused.value).replace(f"{tmp_path}/", "tables/")
    words = re.sub(r"process \d+ on [^;]+", "process 4711 on host", words)

    assert f"Error: {words}\n" in (DOCS / "how-to" / "sync-into-delta.md").read_text()


def test_a_sync_that_was_overtaken_ends_with_the_words_of_the_page(tmp_path: Path) -> None:
    first, second = (StreamTable(tmp_path / "orders", "shop", "orders", table_schema({})) for _ in range(2))
    first.commit(TableState("incremental", "append"))
    with pytest.raises(StateConflict) as overtaken:
        second.commit(TableState("incremental", "append"))

    assert f"orders: {overtaken.value.message}\n" in (DOCS / "how-to" / "sync-into-delta.md").read_text()


def section(page: Path, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    found = re.search(rf"^## `?{re.escape(heading)}`?\n(.*?)(?=^## |\Z)", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page.name} has no section {heading!r}"
    return found[1]


def _own_docstring(value: Any) -> bool:
    """Whether a docstring was written for it: neither inherited nor made by `dataclass`."""
    said = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    made = str(said).startswith(f"{value.__name__}(") and dataclasses.is_dataclass(value)
    return bool(said) and not made


def _names(path: Path) -> Iterator[str]:
    yield from _defined(path.read_text())


def _defined(code: str) -> Iterator[str]:
    """The names that a program defines or imports, and its texts that are a name, such as that of a header."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.alias(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Constant(value=str(name)):
                yield name
            case _:
                pass


def _used(node: ast.AST) -> Iterator[str]:
    """The names in full of what a part of a program takes from the kit and its connectors."""
    match node:
        case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in {"cdk", "connectors"}:
            yield from (f"{module}.{alias.name}" for alias in node.names)
        case ast.Attribute() if (name := ast.unparse(node)).startswith("cdk."):
            yield name
        case _:
            pass


def _is_there(full_name: str) -> bool:
    """Whether a module has this name, or something in one."""
    try:
        resolve_name(full_name)
    except (ImportError, AttributeError):
        return False
    return True


def _keys(model: type[BaseModel], before: str = "") -> Iterator[str]:
    for name, setting in model.model_fields.items():
        inner = list(_models(setting.annotation))
        if not inner:
            yield f"{before}{setting.alias or name}"
        for between, part in inner:
            yield from _keys(part, f"{before}{name}.{between}")


def _models(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    """The models of a setting; `NAME.` where it is a map to them."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield "", annotation
    between = "NAME." if get_origin(annotation) is Mapping else ""
    for argument in get_args(annotation):
        for inner, model in _models(argument):
            yield between + inner, model


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
