"""The suite on Spark: tasks in processes of their own bring what a read here does, or it says what they do not."""

import threading
from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest

from cdk import Item, Json, Partition, Slice, Source, Stream
from cdk.testing import MockApi, Nonconforming, SparkConnectorSuite
from tests.testing.blog import CONFIG as BLOG_CONFIG
from tests.testing.blog import Blog, blog_api
from tests.testing.conformance.broken import CONFIG, Ledger, ledger_api

pytestmark = pytest.mark.spark


class TestLedgerOnSpark(SparkConnectorSuite):
    source = Ledger
    config: ClassVar[Mapping[str, str]] = CONFIG

    def transport(self) -> MockApi:
        return ledger_api()


class TestBlogOnSpark(SparkConnectorSuite):
    """With substreams, and a login before the first request."""

    source = Blog
    config: ClassVar[Mapping[str, str]] = BLOG_CONFIG
    now = "2024-06-01T00:00:00Z"

    def transport(self) -> MockApi:
        return blog_api()


class Remembering(Stream):
    """Keeps in its class what its partitions are: the class of another process has nothing."""

    name = "accounts"
    found: ClassVar[dict[Json, Json]] = {}

    def partitions(self) -> Iterator[Partition]:
        for number in range(2):
            self.found[number] = {"id": number}
            yield Partition({"number": number})

    def read_records(self, slice: Slice) -> Iterator[Item]:
        yield from filter(None, [self.found.get(slice.partition["number"])])


class Locking(Stream):
    """Holds a lock, which is one of its process."""

    name = "accounts"

    def __init__(self, config: Mapping[str, Json] | None = None) -> None:
        super().__init__(config)
        self.lock = threading.Lock()

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        with self.lock:
            yield {"id": 1}


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (Remembering, "tasks on Spark return other records than this process: 2 are missing, 0 are too many"),
        (Locking, "a sync on Spark fails: the stream cannot be sent to Spark's tasks"),
    ],
)
def test_what_is_only_here_is_missed_there(stream: type[Stream], words: str) -> None:
    class Kept(Source):
        stream_classes = (stream,)

    class Suite(SparkConnectorSuite):
        source = Kept

    Suite().test_a_sync_writes_what_is_read()
    with pytest.raises(Nonconforming) as caught:
        Suite().test_tasks_on_spark_bring_the_same()

    assert str(caught.value).startswith(words)
