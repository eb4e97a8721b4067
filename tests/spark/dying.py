"""A sync that dies at a named point, in this process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from cdk.base.process.crash_points import reached


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


@contextmanager
def dying_if_reached(point: str, time: int = 1) -> Iterator[None]:
    """What is done within ends where the driver gets to the point for the `time`th time, if it does."""

    def die(process: int, signal: int) -> None:
        del process, signal
        raise SystemExit(point)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDK_CRASH_AT", f"{point}:{time}")
        patch.setattr(os, "kill", die)
        reached.clear()
        try:
            yield
        except SystemExit as death:
            assert death.code == point  # noqa: PT017 - whether it is reached is open
