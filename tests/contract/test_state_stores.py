"""What every state store promises (cdk.state.stores.protocol), and what a log on it promises."""

import errno
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from cdk import StateConflict, TransientError
from cdk.base.values import JsonObject, JsonValue
from cdk.state import Kind, LogStore, StateKey, StateLog, open_session, open_store
from cdk.state.stores.local import LocalStore
from cdk.state.stores.memory import MemoryStore
from tests.state.stores.servers import MARIADB, mariadb, postgres, s3

KEY, OTHER = StateKey("shop"), StateKey("shop", "test")
COUNTER = Kind("test/counter")
KINDS = ["memory", "local", "local without links", "sqlite", "postgres", "s3"]
KINDS += ["mariadb"] if MARIADB else []

# How to open the store again, as another process would.
Open = Callable[[], LogStore]


def no_links(source: Path, target: Path) -> None:  # noqa: ARG001 - as FAT says it
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Open]]:
    """Gives, for a name, an empty store of its own."""
    folder = tmp_path_factory.mktemp("store")
    match request.param:
        case "memory":
            stores: dict[str, MemoryStore] = {}
            yield lambda name: lambda: stores.setdefault(name, MemoryStore())
        case "local":
            yield lambda name: lambda: LocalStore(folder / name)
        case "local without links":
            yield lambda name: lambda: LocalStore(folder / name, link=no_links)
        case "sqlite":
            yield lambda name: lambda: open_store(f"sqlite:///{folder}/{name}.db", writes=False)
        case "postgres":
            with postgres(folder) as url:
                # A schema of its own for every test.
                yield lambda name: lambda: _in_schema(url, name)
        case "mariadb":
            with mariadb(folder) as url:
                yield lambda name: lambda: _in_database(url, name)
        case _:
            with s3() as options:
                yield lambda name: lambda: _in_bucket(name, options)


def _in_bucket(name: str, options: Mapping[str, JsonValue]) -> LogStore:
    config: JsonObject = {"url": f"s3://states/{name}", "options": options}
    return open_store({"type": "object", "config": config}, writes=False)


def _in_schema(url: str, name: str) -> LogStore:
    import sqlalchemy as sa  # noqa: PLC0415 - only here

    engine = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE SCHEMA IF NOT EXISTS {name}"))
    engine.dispose()
    return open_store(f"{url}&options=-csearch_path%3D{name}", writes=False)


def _in_database(url: str, name: str) -> LogStore:
    import sqlalchemy as sa  # noqa: PLC0415 - only here

    address = sa.make_url(url).set(drivername="mysql+pymysql")
    engine = sa.create_engine(address)
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE DATABASE IF NOT EXISTS {name}"))
    engine.dispose()
    return open_store({"type": "sql", "config": {"url": str(address.set(database=name))}}, writes=False)


@pytest.fixture
def reopen(server: Callable[[str], Open]) -> Iterator[Open]:
    """Opens this test's store; each time another object for the same place."""
    opened: list[LogStore] = []
    again = server(f"s{uuid4().hex[:12]}")

    def reopen() -> LogStore:
        opened.append(again())
        return opened[-1]

    yield reopen
    for store in opened:
        store.close()


@pytest.fixture
def store(reopen: Open) -> LogStore:
    store = reopen()
    store.prepare()
    return store


def test_a_number_is_created_once_and_keeps_its_first_bytes(store: LogStore) -> None:
    assert store.create(KEY, 1, b'{"a": 1}')
    assert not store.create(KEY, 1, b'{"b": 2}')
    assert store.read(KEY, 1) == b'{"a": 1}'


def test_of_many_who_create_at_once_one_is_told_yes(reopen: Open, store: LogStore) -> None:
    stores = [reopen() for _ in range(6)]
    together = threading.Barrier(len(stores))

    def create(i: int, seq: int) -> bool:
        together.wait(timeout=20)
        return stores[i].create(KEY, seq, f'{{"by": {i}}}'.encode())

    for seq in range(1, 6):
        with ThreadPoolExecutor(len(stores)) as pool:
            won = list(pool.map(create, range(len(stores)), [seq] * len(stores)))

        assert sum(won) == 1
        assert store.read(KEY, seq) == f'{{"by": {won.index(True)}}}'.encode()


def test_what_is_stored_is_seen_by_who_opens_the_place_again(reopen: Open, store: LogStore) -> None:
    store.create(KEY, 1, b"{}")
    store.put_blob(KEY, "1-aa", b"\x00\xff")
    again = reopen()

    assert (again.read(KEY, 1), again.numbers(KEY)) == (b"{}", [1])
    assert (again.blob(KEY, "1-aa"), list(again.blobs(KEY))) == (b"\x00\xff", ["1-aa"])


def test_numbers_ascend_whatever_the_order_they_came_in(store: LogStore) -> None:
    for seq in (2, 10, 1, 9, 100_000):
        store.create(KEY, seq, b"{}")

    assert store.numbers(KEY) == [1, 2, 9, 10, 100_000]


def test_keys_do_not_see_each_other(store: LogStore) -> None:
    store.create(KEY, 1, b'"mine"')
    store.create(OTHER, 1, b'"theirs"')
    store.create(StateKey("shop2"), 2, b"{}")
    store.put_blob(OTHER, "1-aa", b"theirs")

    assert (store.read(KEY, 1), store.read(OTHER, 1)) == (b'"mine"', b'"theirs"')
    assert store.numbers(KEY) == [1]
    assert (store.blob(KEY, "1-aa"), list(store.blobs(KEY))) == (None, [])
    assert list(store.keys()) == sorted([KEY, OTHER, StateKey("shop2")])


def test_bytes_come_back_as_they_were(store: LogStore) -> None:
    record = '{"a": "\\\\ \\" %s %(x)s \' ; -- größe \U0001f600 İ"}'.encode()
    blob = bytes(range(256)) * 4096
    store.create(KEY, 1, record)
    store.create(KEY, 2, b'"' + b"x" * 200_000 + b'"')
    store.put_blob(KEY, "1-aa", blob)

    assert (store.read(KEY, 1), len(store.read(KEY, 2) or b"")) == (record, 200_002)
    assert store.blob(KEY, "1-aa") == blob


def test_keys_that_differ_in_the_case_of_a_letter_are_two(store: LogStore) -> None:
    longest = StateKey("S" * 200, "n" * 200)
    for key in (StateKey("shop"), StateKey("Shop"), longest, StateKey("s" * 200, "n" * 200)):
        assert store.create(key, 1, f'"{key}"'.encode())

    assert store.read(StateKey("Shop"), 1) == b'"default/Shop"'
    assert store.read(longest, 1) == f'"{longest}"'.encode()
    assert len(list(store.keys())) == 4


def test_what_was_never_stored_is_not_there(store: LogStore) -> None:
    assert (store.read(KEY, 1), store.numbers(KEY), list(store.keys())) == (None, [], [])
    assert (store.blob(KEY, "1-aa"), list(store.blobs(KEY))) == (None, [])


def test_a_store_that_was_never_prepared_can_be_looked_at(reopen: Open) -> None:
    store = reopen()

    assert (store.read(KEY, 1), store.numbers(KEY), list(store.keys())) == (None, [], [])
    assert (store.blob(KEY, "1-aa"), list(store.blobs(KEY))) == (None, [])


def test_a_store_may_be_prepared_by_several_at_once_and_again(reopen: Open) -> None:
    stores = [reopen() for _ in range(4)]
    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(lambda store: store.prepare(), stores))
    stores[0].create(KEY, 1, b"{}")
    stores[1].prepare()

    assert stores[1].numbers(KEY) == [1]
    assert list(stores[1].keys()) == [KEY]


def test_a_blob_that_is_there_is_left_alone(store: LogStore) -> None:
    store.put_blob(KEY, "1-aa", b"data")
    store.put_blob(KEY, "1-aa", b"data")

    assert store.blob(KEY, "1-aa") == b"data"


def test_what_is_dropped_is_gone_and_dropping_it_again_is_fine(store: LogStore) -> None:
    for seq in (1, 2, 3):
        store.create(KEY, seq, b"{}")
        store.put_blob(KEY, f"{seq}-aa", b"data")
    store.drop(KEY, [1, 2], ["1-aa"])
    store.drop(KEY, [1, 2], ["1-aa"])

    assert (store.numbers(KEY), store.read(KEY, 1)) == ([3], None)
    assert (list(store.blobs(KEY)), store.blob(KEY, "1-aa")) == (["2-aa", "3-aa"], None)


def test_a_lease_can_be_held_again_once_it_is_free(store: LogStore) -> None:
    for _ in range(2):
        with store.lease(KEY), store.lease(OTHER):
            store.create(KEY, 1, b"{}")


def test_a_place_tells_the_record_and_the_key_apart(store: LogStore) -> None:
    assert len({store.address_of(KEY, 41), store.address_of(KEY, 42), store.address_of(OTHER, 42)}) == 3
    assert "42" in store.address_of(KEY, 42)


def test_runs_go_on_from_each_other(reopen: Open, store: LogStore) -> None:
    large = {f"id-{i}": 1 for i in range(3000)}
    for n in (1, 2, 3):
        with open_session(StateLog(reopen(), KEY)) as session:
            session.propose("stream:users", COUNTER.of(n))
            session.propose("entities:ids", COUNTER.of(large | {"new": n}))
            session.commit("final")
    log = StateLog(store, KEY)

    assert [record.seq for record in log.history()] == [3, 2, 1]
    assert [log.value(record, "stream:users").value for record in log.history()] == [3, 2, 1]
    assert log.value(log.at(3), "entities:ids").value == large | {"new": 3}


def test_of_many_runs_on_one_record_one_commits(reopen: Open, store: LogStore) -> None:
    logs = [StateLog(reopen(), KEY) for _ in range(6)]
    together = threading.Barrier(len(logs))

    def run(log: StateLog) -> bool:
        frozen = log.check("stream:users", COUNTER.of({"run": id(log)}))
        together.wait(timeout=20)
        try:
            log.append(None, {"stream:users": frozen}, status="final")
        except StateConflict:
            return False
        return True

    with ThreadPoolExecutor(len(logs)) as pool:
        won = list(pool.map(run, logs))
    head = StateLog(store, KEY).head()

    assert head is not None
    assert sum(won) == 1
    assert StateLog(store, KEY).value(head, "stream:users").value == {"run": id(logs[won.index(True)])}


class LosesAnswers:
    """A store behind a line that breaks before some answers to `create` arrive."""

    def __init__(self, store: LogStore, answers: int) -> None:
        self._store = store
        self._lost = answers

    def create(self, key: StateKey, seq: int, record: bytes) -> bool:
        created = self._store.create(key, seq, record)
        if self._lost:
            self._lost -= 1
            raise TransientError("the line broke")
        return created

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def losing(store: LogStore, answers: int) -> LogStore:
    line: object = LosesAnswers(store, answers)
    return line  # type: ignore[return-value] # it passes on whatever the store has


@pytest.mark.parametrize("answers", [1, 2])
def test_a_lost_answer_leaves_one_record_and_is_a_success(store: LogStore, answers: int) -> None:
    with open_session(StateLog(losing(store, answers), KEY)) as session:
        session.propose("stream:users", COUNTER.of(1))
        first = session.commit("partial")
        session.propose("stream:users", COUNTER.of(2))
        session.commit("final")

    assert first is not None
    assert store.numbers(KEY) == [1, 2]
    assert StateLog(store, KEY).at(1).attempt == first.attempt
