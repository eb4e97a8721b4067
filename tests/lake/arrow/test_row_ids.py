"""Ids of rows: they count, whatever the sizes of the batches."""

import pyarrow as pa
import pytest

from cdk.lake.arrow.row_ids import RowIds


@pytest.mark.parametrize("sizes", [[1], [3, 2], [999, 1, 1], [1000, 1000], [998, 2004, 0, 7], [0, 5]])
def test_ids_count_over_all_batches(sizes: list[int]) -> None:
    ids = RowIds("u")

    found = [ids.take([(3, size)]) for size in sizes]

    assert [len(one) for one in found] == sizes
    assert all(one.type == pa.string() for one in found)
    assert pa.concat_arrays(found).to_pylist() == [f"00000003u{number:010}" for number in range(sum(sizes))]


def test_ids_of_two_writers_differ() -> None:
    assert RowIds().take([(0, 1)]) != RowIds().take([(0, 1)])


def test_ids_are_ordered_by_slice_and_then_by_row_whoever_wrote_them() -> None:
    one, other = RowIds("z"), RowIds("a")
    later = one.take([(7, 150), (2, 3)]).to_pylist()
    first = other.take([(0, 0), (1, 2), (5, 1)]).to_pylist()

    assert sorted([*later, *first]) == [*first[:2], *later[150:], first[2], *later[:150]]
