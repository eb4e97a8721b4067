"""Positions that move: what a checkpoint says of them, against a plain dict."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import Checkpoint, Json, Partition, Position
from cdk.base.values import canonical, from_json, to_json
from cdk.state.stored_positions import MANY, MovingPositions, PartitionEntries, StoredPositions, is_same, with_entries
from cdk.state.stream_state import StreamState
from cdk.state.wire import decode, encode
from tests.state.test_wire import PARTITIONS, POSITIONS

PARTS = [Partition.of(shop=n) for n in range(MANY)]
AT = datetime(2024, 1, 1, tzinfo=UTC)


def at(page: int) -> Position:
    return Checkpoint({"page": page})


def of_many(**more: Position) -> StreamState:
    return StreamState({**dict.fromkeys(PARTS, at(1)), **{Partition.of(shop=name): p for name, p in more.items()}})


@given(st.lists(st.tuples(PARTITIONS, st.none() | POSITIONS), max_size=8), st.data())
@settings(deadline=None)
def test_positions_that_move_are_those_of_a_dict(
    moves: list[tuple[Partition, Position | None]], data: st.DataObject
) -> None:
    """And a state made of what moved since the last one is that made of all."""
    moving, model = MovingPositions({}), dict[Partition, Position]()
    for partition, position in moves:
        moving.move(partition, position)
        model.pop(partition, None)
        if position is not None:
            model[partition] = position
        if data.draw(st.booleans()):
            checkpoint = moving.checkpoint()
            assert checkpoint == model
            for exact in (True, False):
                state, whole = (StreamState(positions) for positions in (checkpoint, dict(model)))
                made = [encode(s, incremental=True, exact=exact)["states"] for s in (state, whole)] if model else []
                assert len({canonical(sorted(map(canonical, states))) for states in made}) <= 1  # type: ignore[arg-type] # a list
    assert all((partition in moving) == (partition in model) for partition, _ in moves)


def test_a_checkpoint_is_not_changed_by_what_moves_later() -> None:
    moving = MovingPositions(of_many().positions)
    before = moving.checkpoint()
    assert moving.move(PARTS[3], at(2))
    assert not moving.move(PARTS[4], at(1))
    after = moving.checkpoint()

    assert (before[PARTS[3]], after[PARTS[3]]) == (at(1), at(2))
    assert after.texts.since(before.texts).keys() == {PARTS[3].key}


def test_since_when_a_partition_is_missing_goes_with_its_next_move() -> None:
    moving = MovingPositions(of_many().positions)
    moving.miss(PARTS[5].key, AT)
    checkpoint = moving.checkpoint()
    again = MovingPositions(checkpoint)
    assert (again.missing_since(PARTS[5].key), again.missing_since(PARTS[6].key)) == (AT, None)

    again.move(PARTS[5], at(2))
    assert again.missing_since(PARTS[5].key) is None


def test_a_state_of_many_partitions_is_its_json() -> None:
    for exact in (True, False):
        blob: Json = encode(of_many(), incremental=True, exact=exact)
        assert isinstance(blob["states"], PartitionEntries)
        plain: Json = from_json(to_json(blob))

        assert sorted(map(canonical, plain["states"])) == sorted(map(canonical, blob["states"]))
        assert blob == plain
        assert decode(blob) == decode(plain) == of_many()


def test_the_protocols_form_of_many_partitions_has_nothing_that_only_tables_need() -> None:
    state = StreamState(StoredPositions.of(of_many().positions, {PARTS[0]: AT}))

    assert b"missing" in to_json(encode(state, incremental=True, exact=True))
    assert b"missing" not in to_json(encode(state, incremental=True))


def test_states_are_the_same_whose_json_is() -> None:
    one, other = (encode(of_many(x=at(page)), incremental=True) for page in (1, 2))
    plain = from_json(to_json(one))

    assert is_same(one, with_entries(plain, exact=False))
    assert not is_same(one, other)
    assert not is_same({"seq": 1}, {"seq": 1.0})


def test_a_list_that_names_a_partition_twice_stays_a_list() -> None:
    entries = [{"partition": {"shop": n % 999}, "cursor": {}} for n in range(MANY)]

    assert with_entries({"states": entries}, exact=True) == {"states": entries}
    assert PartitionEntries.of(entries) is None
