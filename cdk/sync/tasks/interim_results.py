"""InterimResults: what a task has read so far when one of its slices takes longer than the task's time.

Spark has no channel from a running task to the driver, so they are files in the folder in which tasks store their
activity, if both access the same disk. Any of them may be missed: the task's final result contains all of them again.
"""

import hmac
import pickle
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdk.base.process.durable_files import replace_file


@dataclass(frozen=True)
class InterimResults:
    """The interim results of one task, which it stores for the driver. Picklable.

    folder: accessible to both, if at all. task: its number. check_seconds: interval at which the task checks whether it
    is late. key: secret of these two, which signs the files because they are unpickled.
    """

    folder: Path
    task: int
    check_seconds: float
    key: bytes = field(repr=False)

    def store(self, index: int, result: object) -> None:
        """Store the `index`-th result for the driver; if that fails, it is only in the task's final result."""
        packed = pickle.dumps(result)
        with suppress(OSError):
            replace_file(self._path(index), self._signature(index, packed) + packed, durable=False)

    def load(self, index: int) -> Any | None:  # noqa: ANN401 - what `store` was called with
        """Return the `index`-th result; None if it does not exist yet or has a wrong signature."""
        try:
            content = self._path(index).read_bytes()
        except OSError:
            return None
        signature, packed = content[:32], content[32:]
        if not hmac.compare_digest(signature, self._signature(index, packed)):
            return None
        return pickle.loads(packed)  # noqa: S301 - stored by a task of this run

    def _path(self, index: int) -> Path:
        return self.folder / f"{self.task}-{index}.interim"

    def _signature(self, index: int, packed: bytes) -> bytes:
        return hmac.digest(self.key, f"{self.task}-{index}:".encode() + packed, "sha256")
