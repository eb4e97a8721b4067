"""The page of table features shows what the guard does."""

from cdk.lake.delta.table_guard import FEATURES, Use, Way
from tests.docs.page import DOCS


def test_the_table_is_that_of_the_guard() -> None:
    page = (DOCS / "reference" / "table-features.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("|")]
    head, _, *cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    assert [name.strip("`") for name in head] == ["feature", *Use]
    assert cells == [[feature.name, *(feature.ways.get(use, Way.REFUSED) for use in Use)] for feature in FEATURES]
