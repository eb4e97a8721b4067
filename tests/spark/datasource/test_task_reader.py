"""How slices are dealt to the tasks of a frame, and read there."""

import socket
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

import pytest

from cdk import (
    Checkpoint,
    ConfigError,
    DatetimeCursor,
    Item,
    Json,
    JsonSchema,
    Page,
    PagedStream,
    Partition,
    Slice,
    list_partitions,
)
from cdk.base.secret_masking import Secrets
from cdk.rest.http.egress import Egress, limited
from cdk.rest.limits.task_budgets import current_share
from cdk.spark.datasource.filter_pushdown import BatchReader
from cdk.spark.datasource.open_stream import OpenStream
from cdk.spark.datasource.task_reader import TaskReader
from cdk.state.position import Edge
from cdk.state.slice import WHOLE
from cdk.state.stream_state import StreamState
from tests.samples import DAY0, Fixed, moment


class Parts(PagedStream):
    """Partitions of two pages."""

    def __init__(self, count: int, most: int | None = None) -> None:
        super().__init__()
        self.count, self.max_concurrency = count, most

    def json_schema(self) -> JsonSchema:
        return {"type": "object", "properties": {"id": {"type": "string"}}}

    def partitions(self) -> Iterable[Partition]:
        return list_partitions("part", range(self.count))

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        return Page([{"id": f"{slice.partition['part']}-{token}"}], None if token else {"page": 2})


def reader(stream: PagedStream, tasks: int, concurrency: int | None = None) -> BatchReader:
    opened = OpenStream(stream, Secrets(), StreamState())
    return BatchReader(opened, TaskReader.of(opened, tasks, concurrency))


@pytest.mark.parametrize(
    ("tasks", "concurrency", "most", "threads"),
    [
        (2, None, None, [5, 5]),
        (64, None, None, [1] * 10),
        (4, 7, None, [2, 2, 2, 1]),
        (4, 100, None, [25, 25, 25, 25]),
        (4, 7, 3, [1, 1, 1]),
        (4, None, 1, [1]),
    ],
)
def test_a_frame_has_as_many_tasks_as_the_cluster_and_reads_no_more_at_once_than_it_may(
    tasks: int, concurrency: int | None, most: int | None, threads: list[int]
) -> None:
    partitions = reader(Parts(20, most), tasks, concurrency).partitions()

    assert [part.value.threads for part in partitions] == threads
    assert sum(len(part.value.slices) for part in partitions) == 20


class Shares(Parts):
    """Has a row for each share that a slice was read with."""

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
        return Page([{"id": f"{current_share().part(6)} of 6 calls"}], None)


def test_the_tasks_of_a_frame_divide_what_the_api_allows() -> None:
    frame = reader(Shares(4), 4)

    read = [[row for batch in frame.read(part) for row in batch["id"].to_pylist()] for part in frame.partitions()]

    assert read == [["2 of 6 calls"], ["2 of 6 calls"], ["1 of 6 calls"], ["1 of 6 calls"]]


def test_a_task_reads_all_pages_of_its_slices_several_at_once() -> None:
    frame = reader(Parts(9), 2, 6)
    rows = [id for part in frame.partitions() for batch in frame.read(part) for id in batch["id"].to_pylist()]

    assert len(rows) == 18
    assert all(rows.index(f"{part}-None") < rows.index(f"{part}-{{'page': 2}}") for part in range(9))


class Beside(Parts):
    """Connects itself."""

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        socket.create_connection(("127.0.0.1", 9)).close()
        return super().read_page(slice, token)


def test_a_task_connects_nowhere_where_no_request_may_go() -> None:
    frame = reader(Beside(1), 1)
    with limited(Egress.parse("public")), pytest.raises(ConfigError, match=r"127\.0\.0\.1:9 .*, in read_page\)"):
        list(frame.read(frame.partitions()[0]))


class Undated(Fixed):
    """Each window has a record without a cursor value."""

    cursor = DatetimeCursor("at", start=DAY0, step=timedelta(days=1))
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}  # noqa: RUF012 - as an author writes it

    def read_records(self, slice: Slice) -> Iterator[Item]:
        assert slice.window is not None
        yield {"id": slice.window.start, "at": slice.window.start}
        yield {"id": f"undated in {slice.window.start}"}


def test_no_window_keeps_a_record_without_a_cursor_value_for_another_read() -> None:
    stream, edge = Undated(), Edge(moment(0), {"of an earlier read": moment(0)})
    opened = OpenStream(stream, Secrets(), StreamState({WHOLE: Checkpoint({"at": moment(0)}, edge)}))
    frame = BatchReader(opened, TaskReader.of(opened, 1))
    (task,) = frame.partitions()

    rows = [id for batch in frame.read(task) for id in batch["id"].to_pylist()]

    assert len(rows) == len(set(rows)) == 2 * len(task.value.slices) == 10
