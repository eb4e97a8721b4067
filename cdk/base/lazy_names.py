"""Module attributes that are imported on first use, so that importing the module stays cheap."""

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import get_data

_IMPORT = re.compile(r"\n    from (\S+) import (\([^)]*\)|.*)")


def lazy_names(module: str) -> Callable[[str], object]:
    """A `__getattr__` for a module or package that resolves the names it imports below `if TYPE_CHECKING`.

    Assign it in the `else` of `if TYPE_CHECKING`: type checkers would otherwise accept any name of the module.
    """

    @cache
    def modules() -> Mapping[str, str]:
        # Not read from a path, since Spark's executors may have the kit in an archive.
        source = (get_data(module, Path(str(sys.modules[module].__file__)).name) or b"").decode()
        return {name: origin for origin, names in _IMPORT.findall(source) for name in re.findall(r"\w+", names)}

    def get(name: str) -> object:
        if name not in modules():
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value: object = getattr(import_module(modules()[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    return get
