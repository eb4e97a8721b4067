"""A state beside a table that cannot be read is an error, and never taken for none."""

import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk.base.errors import BadState, StateError
from cdk.base.times.clock import system_clock
from cdk.base.values import Json
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.state_admin import Admin
from cdk.lake.admin.verify import orphan_files
from cdk.lake.delta.state_blobs import StateBlobs, number
from cdk.lake.delta.stream_table import successor
from cdk.lake.storage.folder import LocalFolder
from tests.spark.users_table import blobs, opened, saved, wrote


@pytest.mark.parametrize(
    ("content", "kind", "problem"),
    [
        (None, StateError, "this file is missing; restore it, or move the table away"),
        (b"", BadState, "expected the JSON an earlier run wrote"),
        (b'{"format": "spark-cdk/1"', BadState, "expected the JSON an earlier run wrote"),
        (b"[]", BadState, 'expected a state of the format "spark-cdk/1"'),
        (b'{"format": "spark-cdk/99"}', BadState, 'expected a state of the format "spark-cdk/1"'),
        (b'{"format": "spark-cdk/1"}', BadState, "expected the fields an earlier run wrote"),
        (
            b'{"format": "spark-cdk/1", "stream": "users", "pending": [], "history": [], "what": 1}',
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
        path.write_bytes(content)

    with pytest.raises(kind) as caught:
        opened(root)

    assert problem in caught.value.message
    assert (caught.value.path, caught.value.stream) == (str(path), "users")


def of_many(cursors: Mapping[int, int]) -> Json:
    """The state of a stream whose partitions stand at these cursor values."""
    states = [{"partition": {"shop": n}, "cursor": {"seq": seq}} for n, seq in cursors.items()]
    return {"use_global_cursor": False, "states": states, "lookback_window": len(states)}


def in_any_order(state: Json) -> Json:
    return {**state, "states": sorted(state["states"], key=lambda entry: entry["partition"]["shop"])}


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
        for n in chance.sample(sorted(self.cursors), chance.choice([0, 3, 300])):
            self.cursors[n] += 1
        for n in chance.sample(sorted(self.cursors), chance.choice([0, 0, 3])):
            del self.cursors[n]
        first = chance.randrange(9_999)
        self.cursors |= dict.fromkeys(range(first, first + chance.choice([0, 4])), 7)
        self.table.commit(saved(of_many(self.cursors)), wrote(self.root, first))
        self.states[self.table.rows_state_version] = of_many(self.cursors)
        self.versions[self.table.version] = self.table.rows_state_version

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
            if found.name.endswith(".json"):
                found.root.delete(found.name)

    @property
    def kept(self) -> list[int]:
        """The states that the newest one can be rolled back to; a table that was restored has lost some."""
        table, there = opened(self.root), {int(path.stem) for path in blobs(self.root)}
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
        found = opened(world.root).load(version).state
        assert in_any_order(found) == in_any_order(world.states[version])


def test_a_commit_writes_the_partitions_that_moved_and_a_new_base_now_and_then(root: Path) -> None:
    cursors = dict.fromkeys(range(4_000), 0)
    opened(root).commit(saved(of_many(cursors)))
    base = blobs(root)[0].stat().st_size
    sizes = []
    for n in range(60):
        cursors |= dict.fromkeys(range(100), n + 1)
        opened(root).commit(saved(of_many(cursors)))
        sizes.append(max(blobs(root), key=lambda path: int(path.stem)).stat().st_size)

    # After forty times a hundred entries, as many as the base has, there is another one.
    assert [n for n, size in enumerate(sizes) if size > base / 2] == [40]
    assert sum(sizes) < 3 * base
    assert opened(root).saved == saved(of_many(cursors))


def test_a_state_leans_on_no_draft(tmp_path: Path) -> None:
    states, state = StateBlobs(LocalFolder(tmp_path), "users"), saved(of_many(dict.fromkeys(range(1_000), 0)))
    first, second = successor(None), successor(successor(None))
    states.write(first, state)
    states.remove(lambda version: version == first)
    states.write(second, state)

    assert StateBlobs(LocalFolder(tmp_path), "users").load(second) == state


def test_a_state_whose_base_is_not_the_one_it_was_written_for_is_an_error(root: Path) -> None:
    cursors = dict.fromkeys(range(1_200), 0)
    opened(root).commit(saved(of_many(cursors)))
    opened(root).commit(saved(of_many({**cursors, 1: 1})))
    base = blobs(root)[0]
    blob = orjson.loads(base.read_bytes())
    base.write_bytes(orjson.dumps({**blob, "state": of_many(dict.fromkeys(range(1_100), 0))}))

    with pytest.raises(BadState, match="found 1100, expected 1200 partitions"):
        opened(root)

    base.unlink()
    with pytest.raises(StateError, match="this file is missing") as caught:
        opened(root)
    assert caught.value.path == str(base)
