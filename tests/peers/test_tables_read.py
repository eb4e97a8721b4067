"""Tables of unit tests are read without running them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.peers.tables import Called, Named, rows

SOURCE = """
import pytest, nowhere

KEY = "k" + "ey"
now = nowhere[0]


@pytest.mark.parametrize(
    "name, value, kind",
    [
        ("a", -1, str),
        pytest.param(KEY, [{"x": (1, None)}], nowhere, id="b"),
        ("c", nowhere[1], int),
        ("e", nowhere.Made(1, kind=nowhere.ONE), datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc)),
        ("d", StreamSlice(partition={"p": 1}, cursor_slice={}), UNKNOWN),
    ],
)
def test_it(name, value, kind): ...


@pytest.mark.parametrize("one", [1, "\\d"])
def test_one(one): ...


def test_none(): ...
"""


def test_the_rows_that_are_written_out_are_read(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(SOURCE)

    made = Called("Made", {"0": 1, "kind": Named("ONE")})
    slice = Called("StreamSlice", {"partition": {"p": 1}, "cursor_slice": {}})
    found = list(rows(tmp_path, "test_x.py", "test_it"))

    assert [dict(row.values) for row in found] == [
        {"name": "a", "value": -1, "kind": str},
        {"name": "key", "value": [{"x": (1, None)}], "kind": Named("nowhere")},
        {"name": "e", "value": made, "kind": datetime(2024, 1, 2, tzinfo=UTC)},
        {"name": "d", "value": slice, "kind": Named("UNKNOWN")},
    ]
    assert [str(row) for row in found] == [f"test_x.test_it-{number}" for number in (0, 1, 3, 4)]
    assert [dict(row.values) for row in rows(tmp_path, "test_x.py", "test_one")] == [{"one": 1}, {"one": "\\d"}]


@pytest.mark.parametrize("function", ["test_none", "test_nowhere"])
def test_a_test_without_a_table_is_an_error(tmp_path: Path, function: str) -> None:
    (tmp_path / "test_x.py").write_text(SOURCE)

    with pytest.raises(LookupError, match=function):
        list(rows(tmp_path, "test_x.py", function))
