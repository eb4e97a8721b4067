"""What moved between two states, the many of a large one as they are asked for."""

from collections.abc import Iterator
from itertools import islice

import pytest

from cdk.base.values import Stored
from cdk.lake.admin.diff import moves
from cdk.state.layers.layered_map import LayeredMap, MemoryLayer
from cdk.state.stored_positions import PartitionEntries


class Counted(dict[str, str]):
    """Counts the entries that are looked at."""

    looked_at = 0

    def items(self) -> Iterator[tuple[str, str]]:  # type: ignore[override] # it counts
        for item in super().items():
            self.looked_at += 1
            yield item


def texts(number: int) -> Counted:
    return Counted({f'{{"shop":"s{n}"}}': f'{{"cursor":{{"at":{n}}}}}' for n in range(number)})


def many(counted: Counted) -> Stored:
    return {"states": PartitionEntries(LayeredMap.of(counted))}


@pytest.mark.parametrize("few", [None, {"states": [{"partition": {"shop": "s0"}, "cursor": {"at": 0}}]}])
def test_of_many_partitions_no_more_are_looked_at_than_are_asked_for(few: Stored) -> None:
    appeared, left = texts(1000), texts(1000)

    after, before = many(appeared), many(left)
    appeared.looked_at = left.looked_at = 0

    news = [str(move) for move in islice(moves(few, after), 3)]
    gone = [str(move) for move in islice(moves(before, few), 3)]

    first = 0 if few is None else 1
    assert news == [f'{{"shop":"s{n}"}} at: nothing → {n}' for n in range(first, first + 3)]
    assert gone == [f'{{"shop":"s{n}"}} at: {n} → nothing' for n in range(first, first + 3)]
    assert max(appeared.looked_at, left.looked_at) <= 5


def test_what_a_large_state_lacks_of_a_small_one_comes_behind() -> None:
    small = {"cursor": 5, "states": [{"partition": {"shop": "s1"}, "cursor": {"at": 9}}]}

    assert [str(move) for move in moves(small, many(texts(2)))] == [
        '{"shop":"s0"} at: nothing → 0',
        '{"shop":"s1"} at: 9 → 1',
        "cursor: 5 → nothing",
    ]
    assert [str(move) for move in moves(many(texts(1)), small)] == [
        '{"shop":"s0"} at: 0 → nothing',
        "cursor: nothing → 5",
        '{"shop":"s1"} at: nothing → 9',
    ]


def test_of_two_large_states_no_more_is_looked_at_than_is_asked_for() -> None:
    before, moved = texts(1000), {f'{{"shop":"s{n}"}}': f'{{"cursor":{{"at":{-n}}}}}' for n in range(1, 1000)}
    older = LayeredMap.of(before)
    newer = LayeredMap([*older.layers, MemoryLayer(moved)], 1000)
    before.looked_at = 0

    found = moves({"cursor": 5, "states": PartitionEntries(older)}, {"cursor": 6, "states": PartitionEntries(newer)})

    assert [str(move) for move in islice(found, 2)] == ["cursor: 5 → 6", '{"shop":"s1"} at: 1 → -1']
    assert before.looked_at == 0
