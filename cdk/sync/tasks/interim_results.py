"""InterimResults: what a task has read when one of its slices goes on for longer than the task was to take.

Spark has no way from a task that runs to the driver, so they are files in the folder in which tasks note what they do,
where both see the same disk. Any may be missed: the result of the task has all of them once more.
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
    """Those of one task: it leaves them, and the driver finds them. Picklable.

    folder: seen by both, if at all. task: its number. after: seconds between two looks whether the task is late. key:
    known to these two alone, for what is found is unpickled.
    """

    folder: Path
    task: int
    after: float
    key: bytes = field(repr=False)

    def leave(self, index: int, result: object) -> None:
        """Let the driver find a result, the `index`-th; where that cannot be, it comes with the task's."""
        packed = pickle.dumps(result)
        with suppress(OSError):
            replace_file(self._path(index), self._signature(index, packed) + packed, durable=False)

    def find(self, index: int) -> Any | None:  # noqa: ANN401 - what was left
        """The `index`-th result, once it was left."""
        try:
            content = self._path(index).read_bytes()
        except OSError:
            return None
        signature, packed = content[:32], content[32:]
        if not hmac.compare_digest(signature, self._signature(index, packed)):
            return None
        return pickle.loads(packed)  # noqa: S301 - left by a task of this run

    def _path(self, index: int) -> Path:
        return self.folder / f"{self.task}-{index}.interim"

    def _signature(self, index: int, packed: bytes) -> bytes:
        return hmac.digest(self.key, f"{self.task}-{index}:".encode() + packed, "sha256")
