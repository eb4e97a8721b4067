"""How often Python looks for garbage that only a search finds."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the garbage collector look rarely, and never at what is there already.

    Records are trees, which reference counting frees; looking for cycles among the objects of each page costs a
    seventh of a read on the command line, and a quarter of a task's CPU.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
