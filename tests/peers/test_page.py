"""The page that compares with DataHub has a row for each fault that is tried, and no other; runs without DataHub."""

import ast
import re
from pathlib import Path

from tests.docs.page import DOCS

PAGE = DOCS / "explanation" / "compared-with-datahub.md"
TRIED = Path(__file__).with_name("test_datahub.py")


def test_every_row_of_the_page_is_tried_and_every_fault_that_is_tried_has_a_row() -> None:
    rows = re.findall(r"^\|.*`(test_\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    tests = [node.name for node in ast.parse(TRIED.read_text()).body if isinstance(node, ast.FunctionDef)]

    assert rows == [name for name in tests if name.endswith("_here")]
    assert len(rows) == 7
