"""LogStore: where logs lie. A plug point; `tests/contract/test_state_stores.py` holds every store to it."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from cdk.state.stores.key import StateKey


class LogStore(Protocol):
    """Numbered records and named blobs, by `StateKey`. It knows bytes, and nothing of what they mean.

    A store is right if `create` is: of any number of callers who create the same number, in any threads, processes
    and machines, exactly one is told True, and everybody reads its bytes from then on. Nothing ever changes bytes
    that are there. What was stored when a call returned survives the end of the process and of the machine.

    A store may be used by several threads at once. Errors:
      - TransientError: the store could not be reached, or the outcome is unknown. A `create` that raised it may
        have happened, or may happen later; the caller reads the number back.
      - ConfigError: the store will never work as it is set up: no permission, or no conditional create.
    Messages name the store and the record, and no secrets.
    """

    def prepare(self) -> None:
        """Make ready for writing: make tables and folders, prove that `create` refuses what is there.

        Called once, before the first write, and never by a run that only looks. May be called again.
        Raises ConfigError: the store takes every `create`, so two runs could not be told apart.
        """

    def create(self, key: StateKey, seq: int, record: bytes) -> bool:
        """Store record `seq` unless that number is taken; say whether this call stored it."""

    def read(self, key: StateKey, seq: int) -> bytes | None:
        """Record `seq`, whole; None where there is none."""

    def numbers(self, key: StateKey) -> Sequence[int]:
        """The numbers of all records, ascending. Every `create` that has returned is seen; nothing is cached."""

    def keys(self) -> Iterable[StateKey]:
        """Whose records there are, in order."""

    def put_blob(self, key: StateKey, name: str, data: bytes) -> None:
        """Store a blob. A name always goes with the same data: one that is there is left alone."""

    def blob(self, key: StateKey, name: str) -> bytes | None:
        """A blob, whole; None where there is none."""

    def blobs(self, key: StateKey) -> Iterable[str]:
        """The names of all blobs, in order."""

    def drop(self, key: StateKey, numbers: Iterable[int], blobs: Iterable[str]) -> None:
        """Remove records and blobs, those that are not there any more included."""

    def lease(self, key: StateKey) -> AbstractContextManager[None]:
        """Hold the key while the block lasts, where the store can tell; else do nothing.

        It makes a second run fail early and is not what keeps the log right: `create` is. It is freed by the death
        of the process, and never by a clock. Raises StateConflict: another run holds it.
        """

    def address_of(self, key: StateKey, seq: int) -> str:
        """What a person would look for to find record `seq`: a file, an object, a row. Without secrets."""

    def close(self) -> None:
        """Close connections; the store is not used again."""
