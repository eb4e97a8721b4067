"""A state beside a table that cannot be read is an error, and never taken for none."""

import errno
import os
import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path

import orjson
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.base.errors import BadState, ConfigError, StateError
from cdk.base.times.clock import system_clock
from cdk.base.values import Json
from cdk.lake.admin.edits import narrowed
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.state_admin import Admin
from cdk.lake.admin.table_audit import audit
from cdk.lake.admin.verify import audits, findings, orphan_files
from cdk.lake.delta.state_blobs import StateBlobs, number, successor
from cdk.lake.delta.table_state import TableState
from cdk.lake.storage.folder import LocalFolder
from cdk.state.layers.layered_map import LayeredMap
from cdk.state.slice import Partition
from cdk.state.stored_positions import PartitionEntries
from tests.spark.users_table import blobs, opened, saved, wrote

FORMAT = b"spark-cdk-table-state/1"


@pytest.mark.parametrize(
    ("content", "kind", "problem"),
    [
        (None, StateError, "this file is missing; restore it, or move the table away"),
        (b"", BadState, "expected the JSON an earlier run wrote"),
        (b'{"format": "%s"' % FORMAT, BadState, "expected the JSON an earlier run wrote; restore the file, take"),
        (b"[]", BadState, 'expected a state of the format "spark-cdk-table-state/1"'),
        (b'{"format": "spark-cdk/4"}', BadState, "a newer kit may have written it: upgrade, or restore the file, take"),
        (b'{"format": "%s"}' % FORMAT, BadState, "expected the fields an earlier run wrote"),
        (
            b'{"format": "%s", "stream": "users", "pending": [], "history": [], "what": 1}' % FORMAT,
            BadState,
            "expected the fields an earlier run wrote",
        ),
    ],
)
def test_a_state_file_that_is_missing_or_broken_is_an_error_that_names_it(
    root: Path, content: bytes | None, kind: type[StateError], problem: str
) -> None:
    opened(root).commit(saved(1), wrote(root, 1))
    (path,) = blobs(root)
    if content is None:
        path.unlink()
    else:
        digest = blake2b(content, digest_size=16).hexdigest()
        path.write_bytes(content.replace(b"{", b'{"digest":"%s",' % digest.encode(), 1))

    with pytest.raises(kind) as caught:
        opened(root)

    assert problem in caught.value.message
    assert (caught.value.path, caught.value.stream) == (str(path), "users")


@pytest.mark.parametrize(
    "change", [(b":1,", b":2,"), (b",", b", "), (b'"digest":"', b'"digest":"0'), (b'"digest"', b'"other"')]
)
def test_a_state_file_that_was_changed_is_not_believed_and_verify_says_so(
    root: Path, change: tuple[bytes, bytes]
) -> None:
    opened(root).commit(saved({"seq": 7}), wrote(root, 1))
    (path,) = blobs(root)
    before = path.read_bytes()
    path.write_bytes(before.replace(*change, 1))

    with pytest.raises(BadState, match=r"a file that does not match the digest in it.*`spark-cdk state reset`"):
        opened(root)
    location = StreamLocation("users", LocalFolder(root))
    found = list(findings(location, "shop", audits(location)[0]))
    assert [issue.broken for issue in found] == [True]
    assert "does not match the digest" in found[0].text


def test_a_state_file_under_the_name_of_another_is_not_believed_and_verify_says_so(root: Path) -> None:
    opened(root).commit(saved({"seq": 1}), wrote(root, 1))
    opened(root).commit(saved({"seq": 2}), wrote(root, 2))
    first, second = sorted(blobs(root), key=lambda path: int(path.stem))
    second.write_bytes(first.read_bytes())

    with pytest.raises(BadState, match=f"found 'version {first.stem}', expected version {second.stem}"):
        opened(root)
    location = StreamLocation("users", LocalFolder(root))
    assert [issue.broken for issue in findings(location, "shop", audits(location)[0])] == [True]


def of_many(cursors: Mapping[int, int]) -> Json:
    """The state of a stream whose partitions stand at these cursor values."""
    states = [{"partition": {"shop": n}, "cursor": {"seq": seq}} for n, seq in cursors.items()]
    return {"use_global_cursor": False, "states": states, "lookback_window": len(states)}


def in_any_order(state: Json) -> Json:
    return {**state, "states": sorted(state["states"], key=lambda entry: entry["partition"]["shop"])}


def entry(seq: int) -> str:
    return f'{{"cursor":{{"seq":{seq}}}}}'


class World:
    """A table whose stream has a thousand partitions, and what a person knows of its states."""

    def __init__(self, root: Path) -> None:
        self.root, self.one = root, StreamLocation("users", LocalFolder(root))
        self.table = opened(root)
        self.cursors = dict.fromkeys(range(1_010), 0)
        self.states: dict[int | None, Json] = {}
        self.versions: dict[int, int | None] = {}
        self.commit(random.Random(0))

    def commit(self, chance: random.Random) -> None:
        moved: dict[int, int | None] = {n: self.cursors[n] + 1 for n in self.some(chance, [0, 3, 300])}
        moved |= dict.fromkeys(self.some(chance, [0, 0, 3]))
        first = chance.randrange(9_999)
        moved |= dict.fromkeys(range(first, first + chance.choice([0, 4])), 7)
        self.cursors = {n: seq for n, seq in {**self.cursors, **moved}.items() if seq is not None}
        state = of_many(self.cursors)
        match self.table.saved:
            case TableState(state={"states": PartitionEntries(texts=texts)}) if chance.random() < 0.7:
                # As a sync has it: only what moved is known.
                news = {f'{{"shop":{n}}}': None if seq is None else entry(seq) for n, seq in moved.items()}
                state["states"] = PartitionEntries(texts.updated(news))
            case _:
                pass
        self.table.commit(saved(state), wrote(self.root, first))
        self.states[self.table.rows_state_version] = of_many(self.cursors)
        self.versions[self.table.version] = self.table.rows_state_version

    def some(self, chance: random.Random, counts: list[int]) -> list[int]:
        return chance.sample(sorted(self.cursors), chance.choice(counts))

    def reopen(self, _: random.Random) -> None:
        self.table = opened(self.root)

    def write_a_draft(self, _: random.Random) -> None:
        """As a commit that was killed."""
        table, state = self.table, of_many({**self.cursors, 1: 99})
        table.draft(successor(table.state_version), saved(state, history=tuple(self.kept)))

    def restore(self, chance: random.Random) -> None:
        handle = DeltaTable(str(self.root))
        if earlier := [n for n, held in self.versions.items() if n < handle.version() and held in self.kept]:
            handle.restore(chance.choice(earlier))

    def roll_back(self, chance: random.Random) -> None:
        Admin(LocalFolder(self.root.parent), "shop").rollback(self.one, number(chance.choice(self.kept)))

    def clean_up(self, _: random.Random) -> None:
        later = system_clock() + timedelta(days=9)
        for found in orphan_files(self.one, "shop", now=later, age=timedelta(days=1)):
            if found.name.endswith((".json", ".layer")):
                found.root.delete(found.name)

    @property
    def kept(self) -> list[int]:
        """The states that the newest one can be rolled back to; a table that was restored has lost some."""
        table, there = opened(self.root), {int(path.stem) for path in blobs(self.root) if path.suffix == ".json"}
        assert table.saved is not None
        assert table.rows_state_version is not None
        return [n for n in (table.rows_state_version, *table.saved.history) if n in there]

    def look(self) -> None:
        """Compare the state that the table has now."""
        table = self.table = opened(self.root)
        assert table.saved is not None
        # One that was taken again has a version of its own.
        state: Json = self.states.setdefault(table.rows_state_version, table.saved.state)
        assert in_any_order(table.saved.state) == in_any_order(state)
        self.cursors = {entry["partition"]["shop"]: entry["cursor"]["seq"] for entry in state["states"]}


STEPS = [World.commit, World.commit, World.commit, World.reopen, World.write_a_draft, World.restore, World.roll_back]


@given(
    steps=st.lists(st.tuples(st.sampled_from([*STEPS, World.clean_up]), st.integers(0, 2**16)), min_size=4, max_size=20)
)
@settings(max_examples=10, deadline=None)
def test_states_of_many_partitions_come_back_whole_whatever_happens_to_their_table(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Callable[[World, random.Random], None], int]]
) -> None:
    world = World(tmp_path_factory.mktemp("lake") / "users")
    for step, seed in steps:
        step(world, random.Random(seed))
        if step is not World.commit:
            world.look()

    for version in {*world.kept} & {*world.states}:
        found = opened(world.root).blobs.load(version).state
        assert in_any_order(found) == in_any_order(world.states[version])


def layers(root: Path) -> list[tuple[int, int]]:
    """Version and entries of the layers of the newest state."""
    newest = max((path for path in blobs(root) if path.suffix == ".json"), key=lambda path: int(path.stem))
    return [(version, entries) for version, entries, *_ in orjson.loads(newest.read_bytes())["partitions"][0]["layers"]]


def test_a_commit_writes_the_partitions_that_moved_and_joins_layers_now_and_then(root: Path) -> None:
    cursors = dict.fromkeys(range(4_000), 0)
    opened(root).commit(saved(of_many(cursors)))
    written = []
    for n in range(60):
        cursors |= dict.fromkeys(range(100 * n % 4_000, 100 * n % 4_000 + 100), n + 1)
        opened(root).commit(saved(of_many(cursors)))
        assert len(layers(root)) <= 17
        written.append(layers(root)[-1][1])

    # Sixteen of the same weight become one; all become one when as many entries were replaced as there are.
    joined = {n: entries for n, entries in enumerate(written) if entries != 100}
    assert joined == {15: 1_600, 31: 1_600, 40: 4_000, 56: 1_600}
    assert opened(root).saved == saved(of_many(cursors))


def test_a_first_read_writes_each_partition_about_once(root: Path) -> None:
    table, texts = opened(root), LayeredMap()
    before: set[Path] = set()
    written = 0
    for n in range(12):
        texts = texts.updated({f'{{"shop":{i}}}': entry(i) for i in range(1_000 * n, 1_000 * (n + 1))})
        table.commit(saved({"states": PartitionEntries(texts)}))
        written += sum(path.stat().st_size for path in {*blobs(root)} - before)
        before = {*blobs(root)}

    whole = StateBlobs(LocalFolder(root / "whole"), "users")
    whole.write(successor(None), saved({"states": PartitionEntries(LayeredMap.of(dict(texts)))}))
    assert written < 2 * sum(path.stat().st_size for path in (root / "whole").iterdir())


@pytest.mark.parametrize("own", [1, 1_000])
def test_parents_of_many_partitions_are_written_by_what_moved(root: Path, own: int) -> None:
    parents = [PartitionEntries(LayeredMap.of({f'{{"shop":{i}}}': entry(i) for i in range(1_500)})) for _ in "ab"]
    state = of_many(dict.fromkeys(range(own), 0))
    state["parent_state"] = {"shops": {"states": parents[0], "parent_state": {"towns": {"states": parents[1]}}}}
    opened(root).commit(saved(state))
    before, table = {*blobs(root)}, opened(root)
    assert table.saved == saved(state)
    assert table.saved is not None

    shops = table.saved.state["parent_state"]["shops"]
    shops["states"] = PartitionEntries(shops["states"].texts.updated({'{"shop":3}': entry(9)}))
    table.commit(table.saved)
    written = {*blobs(root)} - before

    assert sum(path.stat().st_size for path in written) < 3_000
    assert sorted(path.suffix for path in written) == [".json", ".layer"]
    found = opened(root).saved
    assert found is not None
    assert found.state["parent_state"]["shops"]["states"].entry(Partition.of(shop=3))["cursor"] == {"seq": 9}
    assert (
        list(findings(StreamLocation("users", LocalFolder(root)), "shop", {"users": audit(LocalFolder(root), "users")}))
        == []
    )


def test_what_did_not_move_is_not_written(root: Path) -> None:
    opened(root).commit(saved(of_many(dict.fromkeys(range(1_000), 0))))
    before = layers(root)
    opened(root).commit(saved(of_many(dict.fromkeys(range(1_000), 0)), records=5))

    assert layers(root) == before
    assert opened(root).saved == saved(of_many(dict.fromkeys(range(1_000), 0)), records=5)


def test_a_partition_is_looked_up_without_the_others(root: Path) -> None:
    opened(root).commit(saved(of_many(dict.fromkeys(range(9_000), 3))))
    opened(root).commit(saved(of_many({**dict.fromkeys(range(9_000), 3), 77: 4})))
    table = opened(root)
    assert table.saved is not None
    found = [narrowed(table.saved, Partition.of(shop=n)).state["states"] for n in (77, 78)]

    assert [entries[0]["cursor"]["seq"] for entries in found] == [4, 3]
    assert not any("texts" in vars(layer) for layer in table.saved.state["states"].texts.layers)
    with pytest.raises(StateError, match="the state has no partition"):
        narrowed(table.saved, Partition.of(shop="77"))


def test_a_state_leans_on_no_draft(tmp_path: Path) -> None:
    states, state = StateBlobs(LocalFolder(tmp_path), "users"), saved(of_many(dict.fromkeys(range(1_000), 0)))
    first, second = successor(None), successor(successor(None))
    states.write(first, state)
    states.remove(first)
    states.write(second, state)

    assert StateBlobs(LocalFolder(tmp_path), "users").load(second) == state


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(at: int) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    return damage


@pytest.mark.parametrize(
    ("damage", "kind", "problem"),
    [
        (Path.unlink, StateError, "this file is missing"),
        (cut, BadState, "as written"),
        (flip(3), BadState, "an index of the digest"),
        (flip(-3), BadState, "a block of the digest"),
    ],
)
def test_a_layer_that_is_not_as_it_was_written_is_an_error_that_names_it(
    root: Path, damage: Callable[[Path], None], kind: type[StateError], problem: str
) -> None:
    cursors = dict.fromkeys(range(1_200), 0)
    opened(root).commit(saved(of_many(cursors)))
    opened(root).commit(saved(of_many({**cursors, 1: 1})))
    first = next(path for path in blobs(root) if path.suffix == ".layer")
    damage(first)

    with pytest.raises(kind, match=problem) as caught:
        in_any_order(opened(root).saved.state)  # type: ignore[union-attr] # it was committed
    assert str(caught.value.path).startswith(str(first))


def test_verify_looks_into_the_layers_of_all_states(root: Path) -> None:
    one, cursors = StreamLocation("users", LocalFolder(root)), dict.fromkeys(range(1_200), 0)
    opened(root).commit(saved(of_many(cursors)))
    opened(root).commit(saved(of_many({**cursors, 1: 1})))
    first, second = [path for path in blobs(root) if path.suffix == ".layer"]
    assert list(findings(one, "shop", {"users": audit(one.root, "users")})) == []
    flip(-3)(second)
    (newest,) = findings(one, "shop", {"users": audit(one.root, "users")})
    flip(-3)(first)
    both = list(findings(one, "shop", {"users": audit(one.root, "users")}))

    assert (newest.broken, str(second) in newest.text) == (True, True)
    assert [(finding.broken, str(first) in finding.text) for finding in both] == [(True, True), (False, True)]


class OfAnother(LocalFolder):
    """A folder whose files another user may read."""

    def read(self, name: str) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path / name))


def test_a_state_that_this_user_may_not_read_is_not_lost(root: Path) -> None:
    with pytest.raises(ConfigError, match="Permission denied; run this as a user who may read the file"):
        StateBlobs(OfAnother(root), "users").load(1 << 20)
