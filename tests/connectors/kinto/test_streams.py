import itertools
import pickle
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pytest

from cdk import Json, Record, Stream, StreamState
from cdk.base.process.concurrency import Learned
from cdk.engine.boundary_dedup import read_without_boundary_duplicates
from cdk.engine.executors import Threads, serial
from cdk.engine.read import read
from cdk.state.wire import decode, encode
from connectors.kinto.streams import Buckets, Collections, Records
from tests.connectors.kinto.conftest import Server

Config = dict[str, Json]


def through_the_wire(stream: Stream, state: StreamState) -> StreamState:
    blob = encode(state, incremental=stream.incremental)
    return decode(blob, cursor_field=stream.cursor_field)


def run(
    stream: Stream, state: StreamState | None = None, *, items: int | None = None
) -> tuple[list[Record], StreamState]:
    """Read a stream, perhaps only the first items of it; its records and the last state."""
    records: list[Record] = []
    reached = state or StreamState()
    reading = read(stream, reached)
    for item in itertools.islice(reading, items):
        if isinstance(item, StreamState):
            reached = through_the_wire(stream, item)
        else:
            records += item
    reading.close()
    return records, reached


def ids(records: Sequence[Record]) -> list[str]:
    return ["/".join(record[part] for part in ("bucket", "collection", "id") if part in record) for record in records]


def versions(records: Sequence[Record]) -> list[tuple[str, int]]:
    return list(zip(ids(records), (record["last_modified"] for record in records), strict=True))


def test_a_first_read_brings_every_record_of_every_collection(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 10)
    kinto.put_records("blog/drafts", 1)
    kinto.put_records("shop/orders", 7)
    kinto.put("empty")

    records, _ = run(Records(config))

    expected = [
        f"{name}/r{n:03}"
        for name, count in (("blog/posts", 10), ("blog/drafts", 1), ("shop/orders", 7))
        for n in range(count)
    ]
    assert ids(records) == expected
    assert records[1]["n"] == 1
    assert "_ab_cdc_deleted_at" not in records[1]


def test_buckets_and_collections_are_streams_too(kinto: Server, config: Config) -> None:
    kinto.put("blog", {"owner": "ann"})
    kinto.put("blog/collections/posts", {"sort": "-n"})

    [bucket], _ = run(Buckets(config))
    [collection], _ = run(Collections(config))

    assert (bucket["id"], bucket["owner"]) == ("blog", "ann")
    assert (collection["bucket"], collection["id"], collection["sort"]) == ("blog", "posts", "-n")


def test_the_next_read_brings_exactly_what_was_written_changed_and_deleted(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 10)
    kinto.put_records("blog/drafts", 5)
    _, state = run(Records(config))

    posts = "blog/collections/posts/records"
    changed = kinto.put(f"{posts}/r003", {"n": 33})
    deleted = kinto.delete(f"{posts}/r007")
    written = kinto.put(f"{posts}/r100", {"n": 100})
    records, state = run(Records(config), state)

    assert versions(records) == [
        ("blog/posts/r003", changed),
        ("blog/posts/r007", deleted),
        ("blog/posts/r100", written),
    ]
    assert records[0]["n"] == 33
    assert records[1] == {
        "bucket": "blog",
        "collection": "posts",
        "id": "r007",
        "last_modified": deleted,
        "deleted": True,
        "_ab_cdc_deleted_at": datetime.fromtimestamp(deleted / 1000, UTC).isoformat(timespec="milliseconds"),
    }


def test_an_unchanged_server_brings_nothing(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 4)

    for stream in (Buckets(config), Collections(config), Records(config)):
        first, state = run(stream)
        again, unchanged = run(stream, state)

        assert first
        assert again == []
        assert unchanged == state


def test_a_new_collection_brings_its_whole_history(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/old", 4)
    kinto.put_records("blog/hidden", 4)
    _, state = run(Records(config))
    # Importers keep the timestamps of long ago.
    kinto.put("archive")
    kinto.put("archive/collections/imported")
    for n in range(5):
        kinto.put(f"archive/collections/imported/records/i{n}", {"last_modified": 1_500_000_000_000 + n})

    records, _ = run(Records(config), state)

    assert versions(records) == [(f"archive/imported/i{n}", 1_500_000_000_000 + n) for n in range(5)]


def test_records_with_the_same_timestamp_are_all_read_wherever_the_read_is_cut(kinto: Server, config: Config) -> None:
    kinto.put("archive")
    kinto.put("archive/collections/imported")
    for n in range(8):
        kinto.put(f"archive/collections/imported/records/i{n}", {"last_modified": 1_500_000_000_000})
    small = {**config, "page_size": 2}

    for cut in range(10):
        first, state = run(Records(small), items=cut)
        rest, _ = run(Records(small), state)

        assert set(ids([*first, *rest])) == {f"archive/imported/i{n}" for n in range(8)}


@pytest.mark.parametrize("cut", range(1, 14))
def test_a_read_cut_after_a_state_resumes_without_loss_or_repetition(kinto: Server, config: Config, cut: int) -> None:
    kinto.put_records("blog/posts", 8)
    kinto.put_records("blog/drafts", 2)
    kinto.put_records("blog/notes", 7)
    whole, _ = run(Records(config))
    # Each page is followed by its state.
    first, state = run(Records(config), items=2 * cut)

    rest, _ = run(Records(config), state)

    assert versions([*first, *rest]) == versions(whole)


def test_what_changes_while_it_is_read_comes_in_its_last_version(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 9)
    posts = "blog/collections/posts/records"
    reading = read(Records(config), StreamState())
    before = [record for item in itertools.islice(reading, 2) if not isinstance(item, StreamState) for record in item]

    read_changed = kinto.put(f"{posts}/r001", {"n": -1})
    unread_changed = kinto.put(f"{posts}/r005", {"n": -5})
    read_deleted = kinto.delete(f"{posts}/r002")
    unread_deleted = kinto.delete(f"{posts}/r006")
    written = kinto.put(f"{posts}/r100", {"n": 100})
    after = [record for item in reading if not isinstance(item, StreamState) for record in item]

    assert ids(before) == [f"blog/posts/r00{n}" for n in (0, 1, 2)]
    assert ids(after[:4]) == [f"blog/posts/r00{n}" for n in (3, 4, 7, 8)]
    assert versions(after[4:]) == [
        ("blog/posts/r001", read_changed),
        ("blog/posts/r005", unread_changed),
        ("blog/posts/r002", read_deleted),
        ("blog/posts/r006", unread_deleted),
        ("blog/posts/r100", written),
    ]


def test_a_record_deleted_during_a_first_read_leaves_a_tombstone_though_the_cursor_passes_it(
    kinto: Server, config: Config
) -> None:
    kinto.put_records("blog/posts", 4)
    reading = read(Records(config), StreamState())
    next(reading)
    kinto.delete("blog/collections/posts/records/r000")
    kinto.put("blog/collections/posts/records/r001", {"n": 11})

    rest = [record for item in reading if not isinstance(item, StreamState) for record in item]

    assert [(record["id"], record.get("deleted")) for record in rest] == [
        ("r003", None),
        ("r000", True),
        ("r001", None),
    ]


def test_a_deleted_collection_is_a_tombstone_of_its_bucket_and_no_longer_read(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 2)
    kinto.put_records("blog/drafts", 2)
    _, collections = run(Collections(config))
    _, records = run(Records(config))
    deleted = kinto.delete("blog/collections/posts")
    kinto.put("blog/collections/drafts/records/r100")

    [tombstone], _ = run(Collections(config), collections)
    rows, _ = run(Records(config), records)

    assert (tombstone["bucket"], tombstone["id"], tombstone["last_modified"]) == ("blog", "posts", deleted)
    assert tombstone["_ab_cdc_deleted_at"]
    assert ids(rows) == ["blog/drafts/r100"]


def test_a_collection_deleted_and_made_again_brings_its_new_records(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 3)
    _, state = run(Records(config))
    kinto.delete("blog/collections/posts")
    kinto.put_records("blog/posts", 2)

    records, _ = run(Records(config), state)

    assert ids(records) == ["blog/posts/r000", "blog/posts/r001"]


@pytest.mark.parametrize("gone", ["blog/collections/posts", "blog"])
def test_what_is_deleted_between_listing_and_reading_ends_without_an_error(
    kinto: Server, config: Config, gone: str
) -> None:
    kinto.put_records("blog/posts", 7)
    kinto.put_records("shop/orders", 1)
    reading = read(Records(config), StreamState())
    first = next(reading)
    kinto.delete(gone)

    rest = [record for item in reading if not isinstance(item, StreamState) for record in item]

    assert not isinstance(first, StreamState)
    assert ids(first) == ["blog/posts/r000", "blog/posts/r001", "blog/posts/r002"]
    assert ids(rest) == ["shop/orders/r000"]


def test_only_the_named_buckets_are_read(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 2)
    kinto.put_records("shop/orders", 1)
    # Unquoted, Kinto would take this id for a number.
    kinto.put_records("42/answers", 1)
    named = {**config, "buckets": ["42", "shop"]}

    assert ids(run(Buckets(named))[0]) == ["shop", "42"]
    assert set(ids(run(Collections(named))[0])) == {"shop/orders", "42/answers"}
    assert set(ids(run(Records(named))[0])) == {"shop/orders/r000", "42/answers/r000"}


def test_a_named_bucket_is_read_though_it_is_not_listed(kinto: Server, config: Config) -> None:
    kinto.put("private")
    kinto.put("private/collections/shared", read=["system.Everyone"])
    kinto.put("private/collections/secret")
    kinto.put("private/collections/shared/records/r1")
    anonymous: Mapping[str, Json] = {"server": config["server"], "buckets": ["private"]}

    assert ids(run(Records(anonymous))[0]) == ["private/shared/r1"]


def test_fields_that_are_called_like_the_ids_of_the_parents_are_kept(kinto: Server, config: Config) -> None:
    kinto.put("blog")
    kinto.put("blog/collections/posts")
    kinto.put("blog/collections/posts/records/r1", {"bucket": "of water", "deleted": True})

    [record], _ = run(Records(config))

    assert (record["bucket"], record["_bucket"], record["collection"]) == ("blog", "of water", "posts")
    assert record["deleted"] is True
    assert "_ab_cdc_deleted_at" not in record


def test_collections_can_be_read_by_several_threads(kinto: Server, config: Config) -> None:
    names = ["blog/posts", "blog/drafts", "shop/orders", "shop/visits"]
    for name in names:
        kinto.put_records(name, 7)

    pages = [
        {
            versions([record])[0]
            for item in read(Records(config), StreamState(), execute)
            if not isinstance(item, StreamState)
            for record in item
        }
        for execute in (serial, Threads(3, Learned(3)))
    ]

    assert len(pages[0]) == 28
    assert pages[0] == pages[1]


def test_a_stream_that_was_read_here_is_read_elsewhere_too(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 4)
    stream = Records(config)
    here, _ = run(stream)

    there, _ = run(pickle.loads(pickle.dumps(stream)))  # noqa: S301 - our own bytes

    assert there == here


def test_a_lookback_reads_the_last_changes_again(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 3)
    newest = max(last for _, last in versions(run(Records(config))[0]))

    # Of records that come at once Kinto dates some to the next milliseconds, and so behind a read that is planned now.
    class Later(Records):
        def now(self) -> datetime:
            return datetime.fromtimestamp(newest / 1000 + 1, UTC)

    patient = {**config, "lookback_seconds": 3600}
    first, state = run(Later(patient))

    again, unchanged = run(Later(patient), state)

    assert again == first
    assert unchanged == state


def test_a_lookback_begins_where_a_read_was_planned_however_long_that_takes(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 3)
    planned = max(last for _, last in versions(run(Records(config))[0]))
    kinto.put("blog/collections/posts/records/r100")

    class Slow(Records):
        def now(self) -> datetime:
            return datetime.fromtimestamp(planned / 1000, UTC)

    records, state = run(Slow({**config, "lookback_seconds": 1}))

    assert len(records) == 4
    assert [at.cursor for at in state.positions.values()] == [{"last_modified": planned}]


def test_a_sync_drops_what_a_lookback_reads_again(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 7)
    stream = Records({**config, "lookback_seconds": 3600})
    state, rows = StreamState(), list[str]()
    for n in (0, 100, 101):
        kinto.put(f"blog/collections/posts/records/r{n:03}", {"n": -n})
        reader = stream.checkpoint_reader(state)
        for slice in iter(reader.next, None):
            for page in read_without_boundary_duplicates(stream, slice):
                rows += ids(page.records)
                if page.position is not None:
                    reader.observe(slice, page.position, page.edge)
        state = reader.get_checkpoint() or state

    assert sorted(rows) == [f"blog/posts/r{n:03}" for n in (0, 1, 2, 3, 4, 5, 6, 100, 101)]


@pytest.mark.parametrize("gone", ["blog/collections/posts", "blog"])
def test_a_cut_read_goes_on_though_its_collection_is_gone(kinto: Server, config: Config, gone: str) -> None:
    kinto.put_records("blog/posts", 7)
    kinto.put_records("shop/orders", 1)
    _, state = run(Records(config), items=2)
    kinto.delete(gone)

    rest, _ = run(Records(config), state)

    assert ids(rest) == ["shop/orders/r000"]


def test_a_collection_made_again_while_a_read_is_cut_is_read(kinto: Server, config: Config) -> None:
    kinto.put_records("blog/posts", 7)
    _, state = run(Records(config), items=2)
    kinto.delete("blog/collections/posts")
    kinto.put_records("blog/posts", 4)

    rest, _ = run(Records(config), state)

    assert ids(rest) == [f"blog/posts/r00{n}" for n in range(4)]
