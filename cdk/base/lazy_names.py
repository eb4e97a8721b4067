"""Names of a package that are imported when they are first used, so that few of its modules load with it."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def lazy_names(package: str, names: Mapping[str, Iterable[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a package. names: the names that each of its modules has, by the module's relative name."""
    modules = {name: f"{package}.{module}" for module, in_module in names.items() for name in in_module}

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
