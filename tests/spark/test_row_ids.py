"""Ids of rows: they count, whatever the sizes of the batches."""

import pyarrow as pa
import pytest

from cdk.spark.row_ids import RowIds


@pytest.mark.parametrize("sizes", [[1], [3, 2], [999, 1, 1], [1000, 1000], [998, 2004, 0, 7], [0, 5]])
def test_ids_count_over_all_batches(sizes: list[int]) -> None:
    ids = RowIds("u")

    found = [ids.take(size) for size in sizes]

    assert [len(one) for one in found] == sizes
    assert all(one.type == pa.string() for one in found)
    assert pa.concat_arrays(found).to_pylist() == [f"u{number:010}" for number in range(sum(sizes))]


def test_ids_of_two_writers_differ() -> None:
    assert RowIds().take(1) != RowIds().take(1)
