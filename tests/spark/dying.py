"""A sync that dies at a named point, in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest


@contextmanager
def dying_at(point: str, module: ModuleType) -> Iterator[None]:
    """What is done within ends where `module` reaches the point, and must get there."""

    def crash(reached: str) -> None:
        if reached == point:
            raise SystemExit(point)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "crash_point", crash)
        with pytest.raises(SystemExit, match=point):
            yield
