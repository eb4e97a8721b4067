"""Names of a package that are imported when they are first used, so that few of its modules load with it."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def lazy_names(package: str, names: Mapping[str, Iterable[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a package. names: those of each module, which is named as `import_module` takes it.

    Assign it where type checkers do not look (`else` of `if TYPE_CHECKING`): they would take any name for one of it.
    """
    modules = {name: module for module, in_module in names.items() for name in in_module}

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(modules[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
