"""Tunes a process: fewer searches for cyclic garbage, fewer requests for memory, no import of pandas."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LARGEST = 2**25 - 2**16
"""The largest block from which the allocator of Linux learns to retain freed memory: its limit is 32 MiB."""


@contextmanager
def tuned_for_records() -> Iterator[None]:
    """During the block, collect garbage rarely, ignore existing objects in it, and have malloc retain freed memory.

    Records are trees, which reference counting frees; searching the objects of each page for cycles costs a seventh of
    a read on the command line, and a quarter of a task's CPU.

    The texts of a page have a third of a megabyte each. By default, blocks of that size are returned to the system when
    they are freed, and the next page faults each of their memory pages in again: 190 faults per page of records, up to
    a third of the CPU of a read. After a large block was freed once, malloc retains up to 64 MiB.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    bytes(_LARGEST)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _NoPandas:
    """An import hook that reports pandas as not installed."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Refuse to import pandas (importlib.abc.MetaPathFinder)."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def spare_pandas() -> None:
    """Hide pandas from Arrow while it creates its first value, unless a connector has imported pandas.

    Otherwise Arrow imports it in each process, for 0.8 s of CPU on slow cores, although nothing here needs it. Explicit
    conversions from and to pandas make Arrow look for it again.
    """
    if "pandas" not in sys.modules:
        import pyarrow as pa  # noqa: PLC0415 - who only reads has none

        sys.meta_path.insert(0, _NoPandas)
        try:
            pa.array([0])
        finally:
            sys.meta_path.remove(_NoPandas)
