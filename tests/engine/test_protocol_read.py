"""A sync as protocol lines."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from cdk import (
    BadState,
    CatalogError,
    CredentialsError,
    Item,
    Json,
    NotFound,
    Page,
    Partition,
    RateLimited,
    Slice,
    StateMixin,
    Stream,
)
from cdk.base.process.concurrency import Learned
from cdk.base.process.interruption import Interrupted, Interruption
from cdk.base.run import RunScope
from cdk.base.secret_masking import Secrets
from cdk.base.times.clock import sleep
from cdk.engine.executors import Executor, Threads, serial
from cdk.engine.protocol_read import StreamsFailed, run_read
from cdk.protocol.catalog import (
    AirbyteStream,
    ConfiguredAirbyteCatalog,
    ConfiguredAirbyteStream,
    StreamDescriptor,
    SyncMode,
)
from cdk.protocol.messages import AirbyteStateMessage, AirbyteStreamState
from cdk.state.log.value_check import SecretCheck
from cdk.state.manager import ConnectorStateManager
from tests.samples import STREAMS, Orders, Plain, ShopOrders, Users
from tests.sync.loop.simulated_tasks import Clock

NOW = datetime(2024, 1, 5, tzinfo=UTC)


class Lines:
    """What was written, message by message."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def __call__(self, lines: bytes) -> None:
        assert lines.endswith(b"\n")
        self.writes.append(lines)

    @property
    def messages(self) -> list[Json]:
        return [json.loads(line) for lines in self.writes for line in lines.splitlines()]

    @property
    def story(self) -> list[Json]:
        """Statuses as texts, records as counts of those in a row, states as pairs, errors as their kind."""
        told: list[Json] = []
        for message in self.messages:
            match message:
                case {"trace": {"stream_status": {"status": status}}}:
                    told.append(status)
                case {"trace": {"error": error}}:
                    told.append(error["failure_type"])
                case {"state": {"stream": {"stream_state": blob}, "sourceStats": {"recordCount": count}}}:
                    told.append((blob, count))
                case _ if told and type(told[-1]) is int:
                    told[-1] += 1
                case _:
                    told.append(1)
        return told


def catalog(*names: str, mode: SyncMode = SyncMode.FULL_REFRESH) -> ConfiguredAirbyteCatalog:
    return ConfiguredAirbyteCatalog(
        streams=[
            ConfiguredAirbyteStream(stream=AirbyteStream(name=name, json_schema={}), sync_mode=mode) for name in names
        ]
    )


def state(name: str, blob: Json) -> AirbyteStateMessage:
    return AirbyteStateMessage(
        stream=AirbyteStreamState(stream_descriptor=StreamDescriptor(name=name), stream_state=blob)
    )


def lines_of(
    streams: Sequence[Stream], *, states: Sequence[AirbyteStateMessage] = (), execute: Executor = serial
) -> Lines:
    lines = Lines()
    wanted = catalog(*(stream.name for stream in streams))
    run_read(streams, wanted, ConnectorStateManager(states), lines, execute=execute, clock=lambda: NOW)
    return lines


class Broken(Users):
    """Fails on its third page, with the error it was given."""

    name = "broken"
    error: Exception = RateLimited("come back later")

    def read_page(self, slice: Slice, token: Json) -> Page:
        if token == {"page": 2}:
            raise self.error
        return super().read_page(slice, token)


@pytest.mark.parametrize("execute", [serial, Threads(3, Learned(3))])
def test_a_read_whose_time_is_up_ends_with_its_next_state_and_begins_no_other_stream(execute: Executor) -> None:
    clock = Clock()
    interruption = Interruption(timedelta(seconds=1), clock)

    class Timed(Users):
        def read_page(self, slice: Slice, token: Json) -> Page:
            clock.now = 1
            return super().read_page(slice, token)

    lines = Lines()
    streams = [Timed(), Plain()]
    interrupted = RunScope(shared={Interruption: interruption}).working()
    with interrupted, pytest.raises(Interrupted, match="max_duration"):
        run_read(
            streams,
            catalog(*(stream.name for stream in streams)),
            ConnectorStateManager(),
            lines,
            execute=execute,
            clock=lambda: NOW,
        )

    assert lines.story == ["STARTED", "RUNNING", 3, ({"page": 1}, 3.0), "INCOMPLETE"]


@pytest.mark.parametrize("execute", [serial, Threads(3, Learned(3))])
def test_a_read_whose_time_is_up_in_a_long_wait_ends_with_its_last_state(
    execute: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    waits: list[float] = []
    # Not `time.sleep` itself: libraries' threads use it, too.
    monkeypatch.setattr("cdk.base.times.clock.time", SimpleNamespace(sleep=waits.append, time=time.time))

    class Waiting(Users):
        def read_page(self, slice: Slice, token: Json) -> Page:
            if token == {"page": 1}:
                clock.now = 1
                sleep(3600)
            return super().read_page(slice, token)

    lines = Lines()
    limited = RunScope(shared={Interruption: Interruption(timedelta(seconds=1), clock)}).working()
    with limited, pytest.raises(Interrupted, match="max_duration"):
        run_read([Waiting()], catalog("waiting"), ConnectorStateManager(), lines, execute=execute, clock=lambda: NOW)

    assert lines.story == ["STARTED", "RUNNING", 3, ({"page": 1}, 3.0), "INCOMPLETE"]
    assert sum(waits) < 1


def test_a_stream_that_failed_is_told_where_the_read_is_interrupted_later() -> None:
    class Spent(Users):
        def read_page(self, slice: Slice, token: Json) -> Page:
            if token == {"page": 2}:
                raise Interrupted("max_requests")
            return super().read_page(slice, token)

    lines, streams = Lines(), [Broken(), Spent(), Plain()]
    with pytest.raises(StreamsFailed):
        run_read(streams, catalog(*(one.name for one in streams)), ConnectorStateManager(), lines, clock=lambda: NOW)
    assert lines.story[-7:] == ["STARTED", "RUNNING", 3, ({"page": 1}, 3.0), 3, ({"page": 2}, 3.0), "INCOMPLETE"]


def test_a_full_refresh_tells_its_story() -> None:
    assert lines_of([Plain()]).story == [
        "STARTED",
        "RUNNING",
        7,
        ({"__ab_no_cursor_state_message": True}, 7.0),
        "COMPLETE",
    ]


def test_a_resumable_one_says_a_state_after_every_page_and_the_last_one_once() -> None:
    assert lines_of([Users()]).story == [
        "STARTED",
        "RUNNING",
        3,
        ({"page": 1}, 3.0),
        3,
        ({"page": 2}, 3.0),
        3,
        ({"page": 3}, 3.0),
        3,
        ({"page": 4}, 3.0),
        3,
        ({"__ab_full_refresh_sync_complete": True}, 3.0),
        "COMPLETE",
    ]


def test_a_read_that_finds_nothing_to_do_still_says_one_state() -> None:
    done = {"__ab_full_refresh_sync_complete": True}

    assert lines_of([Users()], states=[state("users", done)]).story == ["STARTED", (done, 0.0), "COMPLETE"]


class Nobody(Orders):
    """Has no partition at all."""

    name = "nobody"

    def partitions(self) -> Iterator[Partition]:
        return iter(())


def test_a_stream_without_partitions_says_the_state_it_came_with() -> None:
    assert lines_of([Nobody()]).story == ["STARTED", ({}, 0.0), "COMPLETE"]


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
@pytest.mark.parametrize("execute", [serial, Threads(3, Learned(3))], ids=["serial", "threads"])
def test_every_stream_counts_each_of_its_records_in_one_state_and_ends_with_a_state(
    stream: Stream, execute: Executor
) -> None:
    story = lines_of([stream], execute=execute).story

    assert story[0] == "STARTED"
    assert story[-1] == "COMPLETE"
    assert isinstance(story[-2], tuple)
    records = sum(item for item in story if isinstance(item, int))
    assert sum(item[1] for item in story if isinstance(item, tuple)) == records
    states = [json.dumps(item[0], sort_keys=True) for item in story if isinstance(item, tuple)]
    assert max(Counter(states[:-1]).values(), default=1) == 1


class Behind(StateMixin):
    """Goes on after the last state that it sets."""

    name = "behind"
    cursor_field = "version"

    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield {"version": 1}
        self.state = {"version": 1}
        yield {"version": 1}


def test_records_that_change_no_state_are_counted_by_the_last_one_said_once_more() -> None:
    reached = {"version": 1}

    assert lines_of([Behind()]).story == ["STARTED", "RUNNING", 1, (reached, 1.0), 1, (reached, 1.0), "COMPLETE"]


def test_a_failing_stream_keeps_its_state_and_does_not_stop_the_next() -> None:
    lines = Lines()

    with pytest.raises(StreamsFailed, match=r"^1 stream could .*: broken: come back later$"):
        run_read([Broken(), Plain()], catalog("broken", "plain"), ConnectorStateManager(), lines)

    assert lines.story == [
        "STARTED",
        "RUNNING",
        3,
        ({"page": 1}, 3.0),
        3,
        ({"page": 2}, 3.0),
        "INCOMPLETE",
        "transient_error",
        "STARTED",
        "RUNNING",
        7,
        ({"__ab_no_cursor_state_message": True}, 7.0),
        "COMPLETE",
    ]
    (error,) = (m["trace"]["error"] for m in lines.messages if m.get("trace", {}).get("type") == "ERROR")
    assert error["stream_descriptor"] == {"name": "broken"}


def test_the_last_error_names_every_stream_that_failed() -> None:
    class Refused(Broken):
        name = "refused"
        error = CredentialsError("who are you?")

    with pytest.raises(StreamsFailed, match=r"broken: come back later; refused: who are you\?"):
        run_read([Broken(), Refused()], catalog("broken", "refused"), ConnectorStateManager(), Lines())


def test_a_mistake_in_a_connector_is_an_error_of_its_stream_too() -> None:
    class Careless(Stream):
        def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
            yield {"id": self.config["id"]}

    lines = Lines()
    with pytest.raises(Exception, match="careless: KeyError: 'id'"):
        run_read([Careless()], catalog("careless"), ConnectorStateManager(), lines)

    said = [({"__ab_no_cursor_state_message": True}, 0.0)]
    assert lines.story == ["STARTED", *said, "INCOMPLETE", "system_error"]


def test_secrets_are_hidden_in_errors() -> None:
    class Chatty(Broken):
        name = "chatty"
        error = CredentialsError("key hunter2 refused", detail="hunter2")

    lines = Lines()
    with pytest.raises(StreamsFailed):
        run_read([Chatty()], catalog("chatty"), ConnectorStateManager(), lines, mask=Secrets(["hunter2"]).mask)

    assert not any(b"hunter2" in line for line in lines.writes)


def test_a_stream_the_source_lacks_fails_and_the_others_are_read() -> None:
    lines = Lines()

    with pytest.raises(StreamsFailed, match="did you mean 'users'"):
        run_read([Users(), Plain()], catalog("usres", "plain"), ConnectorStateManager(), lines)

    assert lines.story[:3] == ["INCOMPLETE", "config_error", "STARTED"]
    assert lines.story[-1] == "COMPLETE"


def test_another_cursor_than_the_streams_is_refused_with_its_name() -> None:
    wanted = catalog("orders", mode=SyncMode.INCREMENTAL)
    streams = [replace(wanted.streams[0], cursor_field=["updatd_at"])]

    with pytest.raises(StreamsFailed, match="did you mean 'updated_at'"):
        run_read([Orders()], ConfiguredAirbyteCatalog(streams=streams), ConnectorStateManager(), Lines())


def test_a_bad_state_of_any_stream_is_found_before_the_first_is_read() -> None:
    lines = Lines()
    manager = ConnectorStateManager([state("users", "page 3")])

    with pytest.raises(BadState, match="users"):
        run_read([Plain(), Users()], catalog("plain", "users"), manager, lines)

    assert lines.writes == []


def test_a_stream_asked_for_twice_is_refused() -> None:
    with pytest.raises(CatalogError, match="twice"):
        run_read([Plain()], catalog("plain", "plain"), ConnectorStateManager(), Lines())


def test_a_page_is_written_at_once() -> None:
    class Big(Stream):
        def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
            yield Page([{"id": i} for i in range(500)], None)

    assert [lines.count(b"\n") for lines in lines_of([Big()]).writes if b'"RECORD"' in lines] == [500]


class Shops(Orders):
    """A thousand partitions of two records."""

    hours = (1, 2)

    def partitions(self) -> Iterator[Partition]:
        return (Partition.of(shop=i) for i in range(1000))


def test_the_states_of_many_partitions_weigh_no_more_than_their_records_and_the_last() -> None:
    writes = lines_of([Shops()]).writes
    records = sum(len(lines) for lines in writes if lines.startswith(b'{"type":"RECORD"'))
    states = [len(lines) for lines in writes if lines.startswith(b'{"type":"STATE"')]

    assert len(states) > 3
    assert sum(states[:-1]) <= records + states[-2]


@pytest.mark.parametrize(
    ("mode", "shops"),
    [(SyncMode.FULL_REFRESH, {"b", "c"}), (SyncMode.INCREMENTAL, {"a", "b", "c"})],
    ids=["full", "incremental"],
)
def test_a_full_refresh_that_resumes_reads_no_partition_twice(mode: SyncMode, shops: set[str]) -> None:
    """Each read of changes asks all partitions, so what comes to those that were read before does not wait."""
    known = {"partition": {"shop": "a"}, "cursor": {"updated_at": "2024-01-01"}}
    before = state("shop_orders", {"use_global_cursor": False, "states": [known], "_cdk": {"after": {"shop": "a"}}})
    lines = Lines()

    manager = ConnectorStateManager([before])
    run_read([ShopOrders()], catalog("shop_orders", mode=mode), manager, lines, clock=lambda: NOW)

    assert {message["record"]["data"]["shop"] for message in lines.messages if "record" in message} == shops


class Torn(Stream):
    """Three partitions of one page; the second is gone."""

    supports_checkpointing = True

    def partitions(self) -> list[Partition]:
        return [Partition.of(n=n) for n in range(3)]

    def read_records(self, slice: Slice) -> Iterator[Item]:
        if slice.partition["n"] == 1:
            raise NotFound("that part is gone")
        yield {"n": slice.partition["n"]}


@pytest.mark.parametrize("execute", [serial, Threads(3, Learned(3))], ids=["serial", "threads"])
def test_a_part_that_is_gone_fails_the_stream_after_the_others_and_stays_open(execute: Executor) -> None:
    lines = Lines()

    with pytest.raises(StreamsFailed) as raised:
        run_read([Torn()], catalog("torn"), ConnectorStateManager(), lines, execute=execute)

    *_, (last, _), incomplete, kind = lines.story
    done = {"__ab_full_refresh_sync_complete": True}
    cursors = {entry["partition"]["n"]: entry["cursor"] for entry in last["states"]}
    assert {n: cursor for n, cursor in cursors.items() if cursor} == {0: done, 2: done}
    assert (incomplete, kind) == ("INCOMPLETE", "system_error")
    assert sum(item for item in lines.story if type(item) is int) == 2
    assert {str(name): type(error) for name, error in raised.value.failures.items()} == {"torn": NotFound}


def test_a_stream_that_fails_at_once_says_the_state_it_came_with_before_it_ends() -> None:
    lines = Lines()

    with pytest.raises(StreamsFailed):
        run_read([Broken()], catalog("broken"), ConnectorStateManager([state("broken", {"page": 2})]), lines)

    assert lines.story == ["STARTED", ({"page": 2}, 0.0), "INCOMPLETE", "transient_error"]


def test_a_stream_that_fails_before_it_was_ever_read_says_an_empty_state() -> None:
    class Closed(Users):
        def read_page(self, slice: Slice, token: Json) -> Page:  # noqa: ARG002
            raise CredentialsError("who are you?")

    lines = Lines()
    with pytest.raises(StreamsFailed):
        run_read([Closed()], catalog("closed"), ConnectorStateManager(), lines)

    assert lines.story == ["STARTED", ({}, 0.0), "INCOMPLETE", "config_error"]


def test_the_summary_of_failures_is_for_the_person_who_gave_the_config() -> None:
    failures = {StreamDescriptor(name="a", namespace="n"): ValueError("no"), StreamDescriptor(name="b"): NotFound("x")}

    error = StreamsFailed(failures)

    assert error.failure_type == "config_error"
    assert error.failures == failures
    assert error.message.startswith("2 streams could not be read to the end: ")
    assert error.message.endswith("; b: x")


class Links(Users):
    """Pages whose token is an address with a key in it."""

    def read_page(self, slice: Slice, token: Json) -> Page:
        page = super().read_page(slice, None)
        return Page(page.records, None if token else {"next": "https://api.example?page=2&apikey=hunter2hunter2"})


def test_a_secret_in_a_state_fails_its_stream_before_the_state_is_said() -> None:
    streams, lines = [Links(), Orders()], Lines()
    with pytest.raises(StreamsFailed, match="found a secret of the config") as failed:
        run_read(
            streams,
            catalog("links", "orders"),
            ConnectorStateManager(()),
            lines,
            clock=lambda: NOW,
            leaks=SecretCheck(["hunter2hunter2"]),
        )

    assert [str(stream) for stream in failed.value.failures] == ["links"]
    assert not [line for line in lines.messages if "hunter2" in str(line)]


def test_a_state_that_the_cursor_cannot_read_is_found_before_the_first_is_read() -> None:
    with pytest.raises(BadState, match="expected a timestamp written as"):
        lines_of([Users(), Orders()], states=[state("orders", {"updated_at": "soon"})])


@pytest.mark.parametrize("execute", [serial, Threads(3, Learned(3))], ids=["serial", "threads"])
def test_a_limit_ends_each_stream_after_so_many_records_with_the_state_of_whole_pages(execute: Executor) -> None:
    lines = Lines()
    streams = [Users(), Plain()]

    run_read(
        streams, catalog("users", "plain"), ConnectorStateManager(), lines, execute=execute, clock=lambda: NOW, limit=4
    )

    assert lines.story == [
        *("STARTED", "RUNNING", 3, ({"page": 1}, 3.0), 1, ({"page": 1}, 1.0), "INCOMPLETE"),
        *("STARTED", "RUNNING", 4, ({"__ab_no_cursor_state_message": True}, 4.0), "INCOMPLETE"),
    ]


def test_a_stream_that_has_no_more_than_the_limit_is_complete() -> None:
    lines = Lines()

    run_read([Plain()], catalog("plain"), ConnectorStateManager(), lines, clock=lambda: NOW, limit=7)

    assert lines.story[-1] == "COMPLETE"
