import re
import sys
from importlib import import_module
from pathlib import Path

from cdk.compat.loading.custom_module import DOCUMENTED, serving
from cdk.compat.loading.served_names import PLACES

PAGE = Path(__file__).parents[3] / DOCUMENTED


def test_every_name_can_be_imported() -> None:
    with serving():
        for place, names in PLACES.items():
            for name in names:
                assert hasattr(import_module(place), name), f"{place}.{name}"


def test_the_page_lists_what_is_served() -> None:
    table = PAGE.read_text().partition("## Names that can be imported")[2]
    listed = {
        place: tuple(re.findall(r"`(\w+)`", names))
        for place, names in re.findall(r"^\| `([\w.]+)` \| (.+) \|$", table, re.MULTILINE)
    }

    assert {place: tuple(sorted(names)) for place, names in PLACES.items()} == listed


def test_a_name_is_the_same_wherever_it_is_imported_from() -> None:
    with serving():
        first = import_module("airbyte_cdk.sources.types").StreamSlice
        second = import_module("airbyte_cdk.sources.declarative.types").StreamSlice

    assert first is second
    assert "airbyte_cdk" in sys.modules
