"""Module attributes and regular expressions that are made on first use, so that importing a module stays cheap."""

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, AnyStr, Generic, cast

if TYPE_CHECKING:
    from importlib.abc import ResourceLoader

_METHODS = ("fullmatch", "match", "search", "findall", "finditer", "split", "sub", "pattern")


def lazy_names(module: str) -> Callable[[str], object]:
    """A `__getattr__` for a module or package that resolves the names it imports below `if TYPE_CHECKING`.

    Assign it in the `else` of `if TYPE_CHECKING`: type checkers would otherwise accept any name of the module.
    """

    @cache
    def modules() -> Mapping[str, str]:
        origins = {}
        loaded = sys.modules[module]
        # Its loader reads it, since Spark's executors may have the kit in an archive.
        source = cast("ResourceLoader", loaded.__loader__).get_data(str(loaded.__file__)).decode()
        for line in source.replace("\r\n", "\n").split("\n    from ")[1:]:
            origin, names = line.split(" import ", 1)
            names = names[1 : names.index(")")] if names.startswith("(") else names.partition("\n")[0]
            origins.update(dict.fromkeys(names.replace(",", " ").split(), origin))
        return origins

    def get(name: str) -> object:
        if name not in modules():
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value: object = getattr(import_module(modules()[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    return get


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The regular expression, which is compiled when a method is called first.

    For modules that each command imports: compiling 70 expressions took a twentieth of `spec` (CPython 3.11). Call its
    methods; the functions of `re` do not accept it.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


class _LazyPattern(Generic[AnyStr]):
    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self._pattern: AnyStr = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        if name not in _METHODS:
            raise AttributeError(f"a lazy pattern has no attribute {name!r}; it has {', '.join(_METHODS)}")
        compiled = re.compile(self._pattern, self._flags)
        # Further calls find the methods here, without this one.
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        return self.__dict__[name]
