"""A planted bug whose place has changed would be planted no more, and one that is no Python would fail every test."""

import ast

import pytest

from tests.planted import BUGS, ROOT, Bug, catching_files


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.promise)
def test_every_bug_has_one_place_to_be_planted_in(bug: Bug) -> None:
    text = (ROOT / "cdk" / f"{bug.file}.py").read_text()

    assert text.count(bug.old) == 1
    assert bug.new != bug.old
    assert ast.parse(text.replace(bug.old, bug.new))
    assert catching_files(ROOT, bug)
