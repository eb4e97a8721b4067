"""Arrow without pandas: a process that reads and writes needs none, and importing it takes longer than a small sync."""

import sys

import pyarrow as pa


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
        sys.meta_path.insert(0, _NoPandas)
        try:
            pa.array([0])
        finally:
            sys.meta_path.remove(_NoPandas)
