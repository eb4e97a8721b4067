"""Every failure of the table has its tests, every test of a failure is in the table, and the page says the same."""

import ast
from pathlib import Path

import pytest

from cdk.base.process.crash_points import POINTS
from tests.state.log.matrix import MATRIX, Row
from tests.state.log.sinks import SINKS

TESTS = Path(__file__).parents[2]
PAGE = TESTS.parent / "docs" / "explanation" / "guarantees.md"
UNDISTURBED = "test_an_undisturbed_run_is_whole_and_the_next_one_does_nothing"


def functions(file: Path) -> dict[str, ast.FunctionDef]:
    """The tests of a file."""
    found = (node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef))
    return {node.name: node for node in found if node.name.startswith("test_")}


OTHERS = functions(Path(__file__).with_name("test_failures.py"))


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(head: str) -> list[list[str]]:
    """The rows of the page's table whose head begins so."""
    lines = iter(PAGE.read_text().splitlines())
    while not next(lines).startswith(f"| {head} |"):
        pass
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return rows


@pytest.mark.parametrize("row", MATRIX, ids=[row.failure for row in MATRIX])
def test_every_failure_has_a_test_for_each_kind_of_sink(row: Row) -> None:
    assert row.delta
    assert row.others
    for name in row.delta:
        file, _, test = name.partition("::")
        test, _, point = test.removesuffix("]").partition("[")
        assert any(test in functions(path) for path in TESTS.rglob(file)), name
        assert not point or point in POINTS, name
    for test in row.others:
        # The fixture `world` makes it a test of each kind.
        assert "world" in {argument.arg for argument in OTHERS[test].args.args}, test


def test_no_test_of_a_failure_is_missing_from_the_table() -> None:
    assert {test for row in MATRIX for test in row.others} == OTHERS.keys() - {UNDISTURBED}


def test_there_are_twenty_failures_and_three_kinds_of_sinks_without_state_of_their_own() -> None:
    assert len({row.failure for row in MATRIX}) == len(MATRIX) == 20
    assert list(SINKS) == ["B", "C", "D"]


def test_the_page_says_what_becomes_of_every_failure() -> None:
    rows = table("failure")

    assert [row[0] for row in rows] == [row.failure for row in MATRIX]
    assert all(len(row) == 5 and all(row) for row in rows)


def test_the_page_names_the_tests_of_every_failure() -> None:
    said = {row[0]: (row[1], row[2]) for row in table("tests of")}

    assert said == {
        row.failure: (
            ", ".join(f"`{name.partition('::')[2]}`" for name in row.delta),
            ", ".join(f"`{name}`" for name in row.others),
        )
        for row in MATRIX
    }
