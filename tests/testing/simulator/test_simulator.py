from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk.base.errors import ConfigError
from cdk.base.values import Record, canonical
from cdk.protocol.messages import AirbyteStateMessage
from cdk.rest import (
    Bearer,
    CursorToken,
    HttpStream,
    LinkHeader,
    Offset,
    PageNumber,
    Paginator,
    Request,
    Response,
    RestSource,
    resource,
)
from cdk.state.slice import Partition, Slice
from cdk.streams.partitions import list_partitions
from cdk.streams.source import Source
from cdk.streams.stream import Stream
from cdk.testing import Simulator, World, read
from cdk.testing.run import ReadResult
from tests.testing.simulator.described import Described, described


def held(simulator: Simulator, name: str) -> list[Record]:
    """What the API holds of a stream: of `lines`, those below each order."""
    collection = simulator.streams[name].collection
    parts = [""] if name == "orders" else [str(row["id"]) for row in held(simulator, "orders")]
    return [row for part in parts for row in collection.records(simulator.world, part)]


def counted(records: Sequence[Record]) -> Counter[str]:
    """Records, as lines of a read have them: without fields that are null."""
    return Counter(canonical({name: value for name, value in row.items() if value is not None}) for row in records)


def run(simulator: Simulator, source: Source, name: str, state: Sequence[AirbyteStateMessage] = ()) -> ReadResult:
    run = read(
        source, name, config=simulator.config, state=state, transport=simulator, clock=simulator.clock, every_state=True
    )
    assert run.error is None, run.error
    return run


@example(Described(child=True), 1, 0)
@settings(max_examples=40)
@given(described(), st.integers(0, 12), st.integers(0, 3))
def test_a_read_brings_what_the_simulator_holds(world: Described, count: int, seed: int) -> None:
    source = world.source()
    simulator = Simulator(source, world=World(records=count, seed=seed))
    names = ["orders", *(["lines"] if world.child else [])]
    assert sorted(names) == sorted(simulator.streams), simulator.missing
    for name in names:
        result = run(simulator, source, name)
        assert counted(result.records) == counted(held(simulator, name)) == counted(simulator.records(name))
        assert result.schema_errors == []
        assert len({row["id"] for row in result.records}) == len(result.records)


@settings(max_examples=30)
@given(described(), st.integers(1, 9), st.data())
def test_an_interrupted_read_resumes_without_loss(world: Described, count: int, data: st.DataObject) -> None:
    source = world.source()
    simulator = Simulator(source, world=World(records=count))
    name = data.draw(st.sampled_from([*simulator.streams]))
    messages = run(simulator, source, name).messages
    cut = ReadResult(messages[: data.draw(st.integers(0, len(messages)))])
    resumed = run(simulator, source, name, cut.state_messages)
    assert {*counted(cut.records), *counted(resumed.records)} == {*counted(held(simulator, name))}


@settings(max_examples=30)
@given(described(), st.integers(2, 12), st.integers(1, 3))
def test_a_later_sync_sees_what_is_new_and_what_has_changed(world: Described, count: int, rounds: int) -> None:
    source = world.source()
    before = Simulator(source, world=World(records=count))
    after = Simulator(source, world=World(records=count, round=rounds))
    first = run(before, source, "orders")
    second = run(after, source, "orders", first.state_messages if world.filter else [])
    old, new = counted(held(before, "orders")), counted(held(after, "orders"))
    assert len(held(after, "orders")) == count + rounds
    assert 1 < len(new - old) <= 2 * rounds
    assert counted(second.records) >= new - old
    assert counted(second.records) <= new
    if world.filter == "both ends":
        # The window begins at the greatest value before, itself included.
        assert len(second.records) <= len(new - old) + 1


def test_the_same_seed_brings_the_same_records_and_another_one_others() -> None:
    source = Described().source()
    first, again, other = (Simulator(source, world=World(seed=seed)).records("orders") for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_simulators_of_one_process_do_not_know_what_others_answered() -> None:
    tops = resource("tops", "/tops", records_path="rows", primary_key="id")
    source = RestSource("https://api.example.com", tops, resource("subs", "/tops/{tops.id}/subs", records_path="rows"))
    worlds = [Simulator(source, world=World(records=count, seed=count)) for count in (20, 4)]
    assert [len(set(map(canonical, simulator.records("tops")))) for simulator in worlds] == [20, 4]
    few = worlds[1].streams["subs"].collection
    expected = [row for at in range(1, 5) for row in few.records(worlds[1].world, f"tops-{at}")]
    assert worlds[1].records("subs") == expected


def test_kinds_of_requests_fail_a_few_times_where_faults_are_asked_for() -> None:
    world = Described(login="oauth", child=True)
    source = world.source()
    simulator = Simulator(source, world=World(faults=True))
    result = run(simulator, source, "lines")
    assert counted(result.records) == counted(held(simulator, "lines"))
    assert sum("429" in line for line in result.logs) >= 2


def test_the_streams_of_a_source_that_is_data_are_simulated() -> None:
    paginators: list[Paginator] = [
        PageNumber(size=2, size_param="per_page"),
        PageNumber(more=["has_more"]),
        Offset(4),
        CursorToken("meta", "next", param="after"),
        CursorToken("next", more=["more"]),
        CursorToken(header="X-Next", param="after"),
        LinkHeader(),
    ]
    schema = {"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}}}
    tops = [
        resource(f"r{at}", f"/r{at}", records_path="rows", primary_key="id", paginator=paginator, schema=schema)
        for at, paginator in enumerate(paginators)
    ]
    child = resource("child", "/r0/{r0.id}/child", records_path="rows", params={"at": "{r0.id}"}, primary_key=["id"])
    source = RestSource("https://{config.host}", *tops, child, auth=Bearer("{config.token}"))
    simulator = Simulator(source, world=World(records=9))
    assert simulator.missing == {}
    for name in simulator.streams:
        result = run(simulator, source, name)
        assert counted(result.records) == counted(simulator.records(name))
        assert len(result.records) >= 5, name


@given(st.integers(2, 40), st.integers(1, 40), st.integers(0, 3), st.sampled_from(["number", "offset", "short page"]))
@settings(max_examples=30)
def test_pages_are_as_large_as_they_are_asked_for(size: int, count: int, rounds: int, kind: str) -> None:
    paginators: dict[str, Paginator] = {
        "number": PageNumber(size=size, size_param="per_page", more=["more"]),
        "offset": Offset(size, more=["more"]),
        "short page": PageNumber(size=size),
    }
    source = RestSource(
        "https://api.example.com",
        resource("rows", "/rows", records_path="rows", primary_key="id", paginator=paginators[kind]),
    )
    simulator = Simulator(source, world=World(records=count, round=rounds))
    pages: list[int] = []

    class Looking:
        def send(self, request: Request) -> Response:
            response = simulator.send(request)
            pages.append(len(response.value_at("rows")))
            return response

    result = read(source, "rows", config=simulator.config, transport=Looking(), clock=simulator.clock)

    held_rows = simulator.records("rows")
    assert counted(result.records) == counted(held_rows)
    assert sum(pages) == len(held_rows)
    assert {*pages[:-1]} <= {size}


class Own(Stream):
    name = "own"

    def read_records(self, slice: object) -> Iterator[Record]:  # noqa: ARG002
        yield {}


class Parsed(HttpStream):
    name = "parsed"
    url_base = "https://api.example.com"

    def path(self, slice: object) -> str:  # noqa: ARG002
        return "/parsed"

    def parse(self, response: object, slice: object) -> list[Record]:  # noqa: ARG002
        return []


class OfCode(Source):
    stream_classes = (Own, Parsed)


class ParsedInParts(Parsed):
    name = "parts"

    def partitions(self) -> Iterator[Partition]:
        return list_partitions("part", [*range(9)])

    def path(self, slice: object) -> str:
        assert isinstance(slice, Slice)
        return f"/parts/{slice.partition['part']}"


class OfParts(Source):
    stream_classes = (ParsedInParts,)


def test_a_stream_that_is_not_simulated_fails_with_its_first_slice() -> None:
    simulator = Simulator(OfParts())
    result = read(OfParts(), "parts", transport=simulator, clock=simulator.clock)
    assert "GET https://api.example.com/parts/0: nothing is simulated there" in str(result.error)
    assert [line for line in result.logs if "/parts/1" in line] == []


def test_an_api_that_is_empty_is_read_as_such_and_grows() -> None:
    source = Described(child=True).source()
    empty, later = (Simulator(source, world=World(records=0, round=number)) for number in (0, 9))
    for name in ("orders", "lines"):
        assert run(empty, source, name).records == empty.records(name) == []
        assert counted(run(later, source, name).records) == counted(later.records(name))
        assert len(later.records(name)) >= 9


def test_what_is_read_by_code_of_its_own_is_named() -> None:
    simulator = Simulator(OfCode())
    assert simulator.missing == {
        "own": "Own reads with custom code; answer it with a cassette or a MockApi if it sends its requests with "
        "`HttpClient` of `cdk.rest`; those of another library, such as `requests`, cannot be answered by the kit: mock "
        "that library in a test",
        "parsed": "its `parse`, or its decoder, is custom code; answer it with a cassette or a MockApi",
    }


@pytest.mark.parametrize("text", ["records", "records=-1", "records=²", "rounds=2", "faults=1"])
def test_a_world_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected records=N, seed=N, round=N or faults"):
        World.parse(text)
