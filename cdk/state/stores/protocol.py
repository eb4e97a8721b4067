"""LogStore: the interface of stores for logs, and StateKey, the pipeline that a log belongs to.

A store is a plug point; `tests/contract/test_state_stores.py` tests every store.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from cdk.base.errors import ConfigError

STATE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
"""Matches names that stores can use in paths."""


class StateKey(Struct, frozen=True, order=True):
    """The identity of a log: a pipeline's name inside a namespace. Set by a person, never generated.

    Both are 1 to 200 letters, digits, `.`, `_` and `-`, not starting with a dot, because stores use them in paths.
    Raises ConfigError: when one of them is anything else.
    """

    pipeline: str
    namespace: str = "default"

    def __post_init__(self) -> None:
        for what, name in (("namespace", self.namespace), ("pipeline", self.pipeline)):
            if not STATE_NAME.fullmatch(name):
                why = f"found the {what} {name!r}, expected 1 to 200 letters, digits, '.', '_' and '-', no '.' first"
                raise ConfigError(why, path="state")

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pipeline}"


class LogStore(Protocol):
    """Numbered records and named blobs, by `StateKey`. A store handles bytes, without knowing their meaning.

    A store is correct if `create` is: of any number of callers that create the same number, in any thread, process or
    machine, exactly one gets True, and every reader sees its bytes from then on. Existing bytes never change. Data that
    is stored when a call returns survives a crash of the process and of the machine.

    A store may be used by several threads at once. Errors:
      - TransientError: the store could not be reached, or the outcome is unknown. A `create` that raised it may
        have happened, or may happen later; the caller reads the number back.
      - ConfigError: the store will never work as configured: no permission, or no conditional create.
    Messages name the store and the record, but no secrets.
    """

    def prepare(self) -> None:
        """Prepare for writing: create tables and folders, and prove that `create` refuses an existing record.

        Called before the first write, and never by a run that only reads. May be called again.
        Raises ConfigError: when the store accepts every `create`, so that it cannot tell two runs apart.
        """

    def create(self, key: StateKey, seq: int, record: bytes) -> bool:
        """Store record `seq` unless that number is taken. Return whether this call stored it."""

    def read(self, key: StateKey, seq: int) -> bytes | None:
        """Return the complete record `seq`; None if it does not exist."""

    def numbers(self, key: StateKey) -> Sequence[int]:
        """Return the numbers of all records, ascending, including every `create` that has returned. Never cached."""

    def keys(self) -> Iterable[StateKey]:
        """Return the keys that have records, sorted."""

    def put_blob(self, key: StateKey, name: str, data: bytes) -> None:
        """Store a blob. A name always stands for the same data, so an existing blob is left alone."""

    def blob(self, key: StateKey, name: str) -> bytes | None:
        """Return a complete blob; None if it does not exist."""

    def blobs(self, key: StateKey) -> Iterable[str]:
        """Return the names of all blobs, sorted."""

    def drop(self, key: StateKey, numbers: Iterable[int], blobs: Iterable[str]) -> None:
        """Remove records and blobs. Missing ones are no error."""

    def lease(self, key: StateKey) -> AbstractContextManager[None]:
        """Hold the key exclusively for the duration of the block, where the store supports that; else do nothing.

        The lease only makes a second run fail early; `create` is what keeps the log correct. It is released by the
        death of the process, never by a clock. Raises StateConflict: when another run holds it.
        """

    def address_of(self, key: StateKey, seq: int) -> str:
        """Return where a person finds record `seq`: a file, an object or a row. Without secrets."""

    def close(self) -> None:
        """Close connections; the store is not used afterwards."""
