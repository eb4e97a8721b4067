"""Tasks that run more than once, as Spark repeats and copies them: only the results that it hands back count."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cdk import Json, Page, PagedStream, Partition, Slice, Source
from cdk.base.task_map import Item, Result
from cdk.spark import Pipeline, SyncRunner
from cdk.sync.tasks.workers import Workers


class Numbers(PagedStream):
    """Three partitions of four pages."""

    primary_key = "n"

    def json_schema(self) -> Json:
        return {"type": "object", "properties": {"n": {"type": "integer"}}}

    def partitions(self) -> list[Partition]:
        return [Partition.of(part=part) for part in range(3)]

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        page = token["page"] if token else 0
        first = 100 * slice.partition["part"] + 10 * page
        return Page([{"n": first + n} for n in range(10)], {"page": page + 1} if page < 3 else None)


class Numbered(Source):
    name = "numbered"
    stream_classes = (Numbers,)


def first_counts(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Each task is copied, and was quicker than its copy."""
    results = [work(item) for item in items]
    for item in items:
        work(item)
    return results


def last_counts(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Each task is lost after its work was done, and repeated."""
    for item in items:
        work(item)
    return [work(item) for item in items]


def some_of_each(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Every second task is copied, and the copy is quicker."""
    both = [(work(item), work(item)) for item in items]
    return [pair[number % 2] for number, pair in enumerate(both)]


@pytest.mark.parametrize("spread", [first_counts, last_counts, some_of_each])
@pytest.mark.parametrize("write_mode", ["append", "overwrite"])
def test_a_task_that_runs_twice_adds_its_rows_once(tmp_path: Path, spread: object, write_mode: str) -> None:
    pipeline = Pipeline.model_validate(
        {
            "name": "copied",
            "source": {"connector": "numbered"},
            "target": {"path": str(tmp_path)},
            "streams": {"numbers": {"write_mode": write_mode}},
            "checkpoint_interval": "0s",
        }
    )

    (report,) = SyncRunner(pipeline, Numbered(), workers=Workers(spread, 2)).run().streams  # type: ignore[arg-type] # parametrized

    table = DeltaTable(str(tmp_path / "numbers"))
    named = pq.read_table(table.file_uris())["n"].to_pylist()
    assert sorted(named) == [100 * part + n for part in range(3) for n in range(40)]
    assert report.total == len(named)
    # The other results are files that no version of the table names.
    assert len(list((tmp_path / "numbers").glob("*.parquet"))) > len(table.file_uris())
