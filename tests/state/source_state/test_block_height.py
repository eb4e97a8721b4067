from typing import Any

import pytest

from cdk import BadState, ConfigError, FatalError
from cdk.state import Block, BlockHeight, StateKey, StateLog, StateRecord, StateValue, open_session, slot_of
from cdk.state.stores.memory import MemoryStore

KEY = StateKey("chain")


class Chain:
    """A chain whose newest blocks may be replaced, and how often it was asked."""

    def __init__(self, hashes: str) -> None:
        self.hashes = hashes
        self.asked: list[int] = []

    def hash_of(self, number: int) -> str | None:
        self.asked.append(number)
        return self.hashes[number] if number < len(self.hashes) else None

    def block(self, number: int) -> Block:
        return Block(number, self.hashes[number], self.hashes[number - 1] if number else None)


class Runs:
    """Runs of a pipeline that reads a chain: what each retracts and reads."""

    def __init__(self, **settings: Any) -> None:
        self.log = StateLog(MemoryStore(), KEY)
        self.settings = settings
        self.record: StateRecord | None = None

    def __call__(self, chain: Chain, most: int | None = None) -> tuple[list[int], list[int]]:
        with open_session(self.log) as session:
            height = BlockHeight.open(session, **self.settings)
            retracted = height.resume(chain.hash_of)
            read = height.following(len(chain.hashes) - 1, most=most)
            for number in read:
                height.advance(chain.block(number))
            height.propose(session)
            self.record = session.commit("final")
        return list(retracted), list(read)

    def put(self, kind: str, value: Any) -> None:
        with open_session(self.log) as session:
            session.propose(slot_of("default"), StateValue(kind, 1, value))
            session.commit("final")


def test_blocks_are_read_once_and_asking_costs_one_hash() -> None:
    read, chain = Runs(), Chain("abc")
    assert read(chain) == ([], [0, 1, 2])
    assert chain.asked == []

    assert read(chain) == ([], [])
    assert (chain.asked, read.record) == ([2], None)
    assert read(Chain("abcde")) == ([], [3, 4])


@pytest.mark.parametrize(
    ("chain", "retracted", "following"),
    [("abcX", [3], [3]), ("abXYZ", [2, 3], [2, 3, 4]), ("ab", [2, 3], []), ("aXYZ", [1, 2, 3], [1, 2, 3])],
)
def test_a_reorganised_chain_is_retracted_to_the_common_block_and_read_again(
    chain: str, retracted: list[int], following: list[int]
) -> None:
    read = Runs()
    read(Chain("abcd"))

    assert read(Chain(chain)) == (retracted, following)
    assert read(Chain(chain)) == ([], [])


def test_a_retraction_alone_is_a_record_without_data() -> None:
    read = Runs()
    read(Chain("abcd"))
    read(Chain("ab"))

    assert read.record is not None
    assert read.record.effects == ()


def test_blocks_that_were_skipped_are_retracted_with_the_next_remembered_one() -> None:
    height, chain = BlockHeight(), Chain("abcdefgh")
    for number in (2, 5, 7):
        height.advance(chain.block(number))

    assert list(height.resume(Chain("abcdeXXX").hash_of)) == [3, 4, 5, 6, 7]
    assert height.last == Block(2, "c")


def test_a_reorganisation_deeper_than_what_is_remembered_is_an_error() -> None:
    read = Runs(remember=2)
    read(Chain("abcdef"))

    with pytest.raises(FatalError, match="found none of the blocks 4 to 5"):
        read(Chain("abcdXX"))


def test_only_confirmed_blocks_are_read() -> None:
    read = Runs(confirmations=2)

    assert read(Chain("a")) == ([], [])
    assert read.record is None
    assert read(Chain("abcd")) == ([], [0, 1])
    assert read(Chain("abcXY")) == ([], [2])


def test_a_run_reads_so_many_at_most() -> None:
    read = Runs()

    assert [read(Chain("abcde"), most=2)[1] for _ in range(4)] == [[0, 1], [2, 3], [4], []]


def test_a_chain_that_changes_while_it_is_read_is_an_error() -> None:
    height = BlockHeight()
    height.advance(Block(4, "d", "c"))

    with pytest.raises(FatalError, match="found block 5 on the block X, expected it on d"):
        height.advance(Block(5, "e", "X"))
    with pytest.raises(FatalError, match="found block 4, expected one after 4"):
        height.advance(Block(4, "e", "d"))
    height.advance(Block(9, "i", "h"))
    assert height.last == Block(9, "i")


def test_hashes_are_compared_as_numbers() -> None:
    height = BlockHeight()
    height.advance(Block(0, "0xAB"))
    height.advance(Block(1, "0xCD", "ab"))

    assert height.resume({0: "ab", 1: "cd"}.get) == range(2, 2)


def test_a_height_goes_to_open_data_fabric_and_back() -> None:
    height = BlockHeight()
    assert height.value() is None
    with pytest.raises(BadState):
        height.as_odf()
    height.advance(Block(2, "c"))
    assert height.as_odf() == StateValue("odf/etag", 1, "2@c")

    read = Runs()
    read.put("odf/etag", "2@c")
    assert read(Chain("abcd")) == ([], [3])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("odf/etag", "5"),
        ("odf/etag", "@x"),
        ("odf/etag", "5@"),
        ("odf/etag", "x@y"),
        ("odf/last-modified", "2024-01-01T00:00:00Z"),
        ("cdk/block-height", {"number": 1, "hash": "a"}),
        ("cdk/block-height", {"number": "1", "hash": "a", "recent": {}}),
        ("cdk/block-height", {"number": 1, "hash": "a", "recent": {"x": "a"}}),
        ("cdk/block-height", {"number": 1, "hash": "a", "recent": {"0": 1}}),
    ],
)
def test_a_slot_of_something_else_is_refused(kind: str, value: Any) -> None:
    read = Runs()
    read.put(kind, value)

    with pytest.raises(BadState):
        read(Chain("abc"))


@pytest.mark.parametrize("settings", [{"confirmations": -1}, {"remember": 0}])
def test_settings_that_cannot_be_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        BlockHeight(**settings)
