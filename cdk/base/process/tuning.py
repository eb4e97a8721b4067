"""What a process does less of: looking for garbage that only a search finds, asking for memory, importing pandas."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LARGEST = 2**25 - 2**16
"""Bytes up to which the allocator of Linux learns that memory comes again: its limit is 32 MiB."""


@contextmanager
def tuned_for_records() -> Iterator[None]:
    """Let the process look for garbage rarely, and never at what is there already; and keep memory that is freed.

    Records are trees, which reference counting frees; looking for cycles among the objects of each page costs a
    seventh of a read on the command line, and a quarter of a task's CPU.

    The texts of a page are a third of a megabyte each. Memory of that size goes back to the system when it is freed,
    and each of its pages is fetched anew for the next: 190 faults for a page of records, up to a third of the CPU of
    a read. Once something large was freed, up to 64 MiB are kept.
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
    """Finds no pandas, wherever it is."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Refuse to import pandas (importlib.abc.MetaPathFinder)."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def spare_pandas() -> None:
    """Let Arrow find no pandas when it makes its first value, unless a connector has imported it.

    Arrow would import it, in each process, for 0.8 s of CPU on slow cores; nothing here needs it. Who
    converts to pandas or from it by name has Arrow look again.
    """
    if "pandas" not in sys.modules:
        import pyarrow as pa  # noqa: PLC0415 - who only reads has none

        sys.meta_path.insert(0, _NoPandas)
        try:
            pa.array([0])
        finally:
            sys.meta_path.remove(_NoPandas)
