"""`import cdk` is all that a connector needs, and costs little."""

import subprocess
import sys
import types

import cdk

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


def test_what_is_listed_is_what_is_visible_in_order() -> None:
    visible = [n for n, value in vars(cdk).items() if not n.startswith("_") and not isinstance(value, types.ModuleType)]

    assert sorted(cdk.__all__) == cdk.__all__
    assert sorted(visible) == cdk.__all__


def test_everything_at_the_front_door_says_what_it_is() -> None:
    aliases = {"Item", "Json", "JsonSchema", "Position", "Record"}

    assert [n for n in cdk.__all__ if n not in aliases and not vars(cdk)[n].__doc__] == []


def test_importing_the_kit_loads_nothing_heavy() -> None:
    program = "import cdk, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert HEAVY & set(loaded.stdout.split()) == set()


def test_a_sync_has_a_front_door_that_loads_nothing_until_it_is_used() -> None:
    program = "import sys, cdk.sync; loaded = {*sys.modules}; [getattr(cdk.sync, n) for n in cdk.sync.__all__]"
    program += "; print(*loaded); print(*sys.modules)"
    before, after = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.splitlines()

    assert HEAVY & set(before.split()) == set()
    assert HEAVY & set(after.split()) >= {"deltalake", "pyarrow"}
    assert "pyspark" not in after.split()
