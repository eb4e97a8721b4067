from collections.abc import Iterator
from contextlib import closing

import pytest

from cdk import Json, Record, Stream, StreamState, TransientError
from cdk.base.process.concurrency import Learned
from cdk.engine.executors import Threads
from cdk.engine.read import read
from cdk.state.wire import decode, encode
from connectors.shop.api import serving
from connectors.shop.backend import Backend, Sizes
from connectors.shop.source import Shop
from connectors.shop.streams import Customers, Orders, Products, Visits

SIZES = Sizes(products=220, orders=900, customers=3, visits=50)
STREAMS: list[tuple[type[Stream], int]] = [(Products, 220), (Orders, 900), (Customers, 3), (Visits, 150)]


@pytest.fixture
def shop() -> Backend:
    return Backend(SIZES)


@pytest.fixture
def address(shop: Backend) -> Iterator[str]:
    with serving(shop) as address:
        yield address


def build(kind: type[Stream], address: str) -> Stream:
    return kind({"base_url": address})


def read_until(stream: Stream, state: StreamState, states: int = 1_000_000) -> tuple[list[Record], StreamState]:
    """Records up to the given number of states, and the last of these as it comes back from where it was kept."""
    records: list[Record] = []
    covered = 0
    with closing(read(stream, state)) as items:
        for item in items:
            if isinstance(item, StreamState):
                covered, states = len(records), states - 1
                kept = encode(item, incremental=stream.incremental)
                state = decode(kept, path="state", cursor_field=stream.cursor_field)
                if not states:
                    break
            else:
                records += item
    return records[:covered], state


@pytest.mark.parametrize(("kind", "count"), STREAMS)
def test_every_record_comes_once(kind: type[Stream], count: int, address: str, shop: Backend) -> None:
    records, _ = read_until(build(kind, address), StreamState())

    assert count == len(records) == len({record["id"] for record in records})
    assert shop.stats()[kind.name]["pages_again"] == 0


@pytest.mark.parametrize(("kind", "count"), [pair for pair in STREAMS if pair[0] is not Customers])
def test_a_cut_read_resumes_at_its_page(kind: type[Stream], count: int, address: str, shop: Backend) -> None:
    first, state = read_until(build(kind, address), StreamState(), states=3)
    second, _ = read_until(build(kind, address), state)

    assert 0 < len(first) < count
    assert count == len({record["id"] for record in [*first, *second]})
    # What comes again are the records at the very moment the cursor stands at, which `sync` drops.
    assert len(first) + len(second) - count <= 2
    assert shop.stats()[kind.name]["pages_again"] == 0


def test_a_new_customer_brings_the_whole_history(address: str, shop: Backend) -> None:
    _, state = read_until(build(Visits, address), StreamState())
    old = {"id": "4-1", "customer_id": 4, "visited_at": "2024-01-02T00:00:00Z"}
    new = {"id": "1-51", "customer_id": 1, "visited_at": "2024-02-01T00:00:00Z"}
    shop.add({"customers": [{"id": 4}], "visits": [old, new]})

    records, _ = read_until(build(Visits, address), state)

    # The API includes the moment it is asked to start at, so the last visits come again; `sync` drops those.
    assert {record["id"] for record in records} == {"1-50", "1-51", "2-50", "3-50", "4-1"}


def test_only_orders_that_changed_are_asked_for_again(address: str, shop: Backend) -> None:
    _, state = read_until(build(Orders, address), StreamState())
    late = {"id": 901, "updated_at": "2024-01-30T23:59:59Z"}
    shop.add({"orders": [late]})
    before = shop.stats()["orders"]["pages"]

    records, _ = read_until(build(Orders, address), state)

    assert {record["id"] for record in records} == {899, 900, 901}
    assert shop.stats()["orders"]["pages"] - before == 1


def test_threads_read_the_same_records(address: str) -> None:
    records = [
        record
        for item in read(build(Visits, address), StreamState(), Threads(3, Learned(3)))
        if not isinstance(item, StreamState)
        for record in item
    ]

    assert len(records) == 150


def test_a_shop_that_asks_to_slow_down_is_read_whole(shop: Backend) -> None:
    waits: list[float] = []

    class Patient(Products):
        sleep = staticmethod(waits.append)

    with serving(shop, refuse_every=4) as address:
        records, _ = read_until(build(Patient, address), StreamState())

    assert len(records) == 220
    assert waits == [1.0]


def test_the_source_lists_its_streams_and_finds_the_shop(address: str) -> None:
    source, config = Shop(), {"base_url": address}

    source.check(config)

    assert [stream.name for stream in source.streams(config)] == ["products", "orders", "customers", "visits"]
    schemas: list[Json] = [stream.json_schema() for stream in source.streams(config)]
    assert all(schema["properties"]["id"] for schema in schemas)


def test_the_source_says_so_when_the_shop_is_not_there() -> None:
    with serving(Backend(SIZES)) as address:
        pass

    class Impatient(Products):
        sleep = staticmethod(lambda _: None)

    with pytest.raises(TransientError, match=address.removeprefix("http://")):
        read_until(build(Impatient, address), StreamState())
