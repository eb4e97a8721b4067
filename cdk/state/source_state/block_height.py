"""BlockHeight: up to which block a blockchain was read, and whether the chain is still the same.

Kind `cdk/block-height`, version 1:

    {"number": ..., "hash": ..., "recent": {NUMBER: HASH}}

A chain may replace its newest blocks by others (a reorganisation). Rows of replaced blocks are then no longer valid;
the hashes of recent blocks tell from which number on.
"""

from collections.abc import Callable
from typing import Self

from msgspec import Struct

from cdk.base.errors import BadState, ConfigError, FatalError
from cdk.base.values import JsonValue
from cdk.state.log.session import StateSession
from cdk.state.log.slot_value import Kind, StateValue
from cdk.state.source_state.slots import ETAG, read_slot, slot_of

KIND = Kind("cdk/block-height")


class Block(Struct, frozen=True):
    """A block of a chain. number: from 0. hash: hexadecimal, ignoring case and a leading `0x`. parent: a hash."""

    number: int
    hash: str
    parent: str | None = None


class BlockHeight:
    """The last block that was read, and some before it. Belongs to one thread.

    confirmations: number of blocks that must follow a block before it is read. remember: number of hashes to store;
    deeper reorganisations cannot be followed. Raises ConfigError: when one of them is too small.
    """

    def __init__(self, *, confirmations: int = 0, remember: int = 128) -> None:
        for name, value, least in (("confirmations", confirmations, 0), ("remember", remember, 1)):
            if value < least:
                raise ConfigError(f"found {value}, expected at least {least}", path=name)
        self._confirmations, self._remember = confirmations, remember
        self._recent: dict[int, str] = {}

    @classmethod
    def open(
        cls, session: StateSession, source: str = "default", *, confirmations: int = 0, remember: int = 128
    ) -> Self:
        """Load the height of a source from its slot: of this kind, or `odf/etag` as `<number>@<hash>`.

        Raises BadState: when the slot holds another kind or is damaged.
        """
        height = cls(confirmations=confirmations, remember=remember)
        height._load(read_slot(session, source, KIND, {ETAG.name: _of_etag}), slot_of(source))
        return height

    @property
    def last(self) -> Block | None:
        """The last block that was read; None before the first."""
        number = max(self._recent, default=None)
        return None if number is None else Block(number, self._recent[number])

    def resume(self, hash_of: Callable[[int], str | None]) -> range:
        """Go back to the newest block that is still in the chain, and return the numbers whose rows must be retracted.

        hash_of: returns the hash of a block in the chain; None if there is no such block. It is called only once if the
        chain was not reorganised. A block skipped by `advance` counts as replaced if the next remembered one was.
        Raises FatalError: when none of the remembered blocks is in the chain any more.
        """
        if (last := self.last) is None:
            return range(0)
        for number in sorted(self._recent, reverse=True):
            current = hash_of(number)
            if current is not None and _same(current, self._recent[number]):
                self._recent = {known: text for known, text in self._recent.items() if known <= number}
                return range(number + 1, last.number + 1)
        raise FatalError(
            f"found none of the blocks {min(self._recent)} to {last.number} in the chain; check that "
            "this is the same chain; if it is, reset the source's state and retract what was read, or raise `remember`"
        )

    def following(self, tip: int, *, most: int | None = None) -> range:
        """Return the next block numbers to read: after the last, up to `confirmations` below `tip`; at most `most`."""
        last = self.last
        first = 0 if last is None else last.number + 1
        end = max(first, tip - self._confirmations + 1)
        return range(first, end if most is None else min(end, first + most))

    def advance(self, block: Block) -> None:
        """Count all blocks up to this one as read, including those without rows.

        Raises FatalError: when the block does not come after the last one, or was built on another block because the
        chain changed meanwhile.
        """
        if (last := self.last) is not None:
            _check_follows(block, last)
        self._recent[block.number] = block.hash
        for number in sorted(self._recent)[: -self._remember]:
            del self._recent[number]

    def value(self) -> StateValue | None:
        """Return the value for the slot; None before the first block."""
        if (last := self.last) is None:
            return None
        recent = {str(number): text for number, text in self._recent.items()}
        return KIND.of({"number": last.number, "hash": last.hash, "recent": recent})

    def as_odf(self) -> StateValue:
        """Return only the last block, as the string `<number>@<hash>` that Open Data Fabric knows.

        Raises BadState: when no block was read.
        """
        if (last := self.last) is None:
            raise BadState("source state", None, "a block that was read")
        return ETAG.of(f"{last.number}@{last.hash}")

    def propose(self, session: StateSession, source: str = "default") -> None:
        """Set the slot of a source with the next commit. Call it once the rows and retractions are durable."""
        value = self.value()
        if value is not None:
            session.propose(slot_of(source), value)

    def _load(self, value: JsonValue, path: str) -> None:
        if value is None:
            return
        match value:
            case {"number": int() as number, "hash": str() as text, "recent": dict() as recent} if all(
                key.isdecimal() and isinstance(digest, str) for key, digest in recent.items()
            ):
                self._recent = {int(key): digest for key, digest in recent.items()} | {number: text}
            case _:
                raise BadState(path, value, "a block's number and hash, and those of recent ones")


def _check_follows(block: Block, last: Block) -> None:
    if block.number <= last.number:
        raise FatalError(f"found block {block.number}, expected one after {last.number}, which is the last")
    if block.number == last.number + 1 and block.parent is not None and not _same(block.parent, last.hash):
        raise FatalError(
            f"found block {block.number} on the block {block.parent}, expected it on {last.hash}: the chain was "
            "reorganised while it was read; drop what was read since the last commit, and resume again"
        )


def _same(first: str, second: str) -> bool:
    return first.lower().removeprefix("0x") == second.lower().removeprefix("0x")


def _of_etag(text: str) -> JsonValue:
    number, at, block_hash = text.partition("@")
    if not at or not number.isdecimal() or not block_hash:
        raise BadState(ETAG.name, text, "'<number>@<hash>'")
    return {"number": int(number), "hash": block_hash, "recent": {}}
