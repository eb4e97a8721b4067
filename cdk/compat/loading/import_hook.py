"""The import finder that serves `airbyte_cdk` to custom code."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from cdk.compat.loading.served_names import HOMES, PLACES

DOCUMENTED = "docs/reference/custom-components.md"
"""Where the names are listed."""

_PARENTS = {
    ".".join(parts[:i]) for module in PLACES for parts in [module.split(".")] for i in range(1, len(parts))
} - PLACES.keys()


class _Served(ModuleType):
    """A module whose names are looked up when they are imported."""

    def __getattr__(self, name: str) -> object:
        if name not in PLACES.get(self.__name__, ()):
            raise AttributeError(f"{self.__name__} has no {name!r} here; the names there are: {DOCUMENTED}")
        value = getattr(HOMES[name], name)
        setattr(self, name, value)
        return value


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Served(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []


class Finder(MetaPathFinder):
    """Finds the modules of `PLACES` and those above them; `dpath` only where it is not installed.

    Ours comes before an installed `airbyte_cdk`, so that a connector behaves the same on every machine.
    """

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the interface of finders
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The module's spec; None for one that is not served."""
        if fullname in PLACES or fullname in _PARENTS:
            return ModuleSpec(fullname, _Loader(), is_package=True)
        if fullname.partition(".")[0] == "airbyte_cdk":
            raise ModuleNotFoundError(
                f"{fullname} is not served here; the names there are: {DOCUMENTED}", name=fullname
            )
        return None


@contextmanager
def serving() -> Iterator[None]:
    """Serve while custom code is imported; an `airbyte_cdk` that was imported before is back afterwards.

    Without one, serving goes on: existing code also imports inside of its functions.
    """
    hidden = {
        name: module for name, module in sys.modules.items() if _is_kit_module(name) and not isinstance(module, _Served)
    }
    for name in hidden:
        del sys.modules[name]
    finder = next((installed for installed in sys.meta_path if isinstance(installed, Finder)), None)
    if finder is None:
        finder = Finder() if find_spec("dpath") is None else _WithoutDpath()
        sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if hidden:
            sys.meta_path.remove(finder)
            for name in [name for name, module in sys.modules.items() if isinstance(module, _Served)]:
                del sys.modules[name]
            sys.modules.update(hidden)


class _WithoutDpath(Finder):
    """Leaves `dpath` to the package that is installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if fullname.startswith("dpath") else super().find_spec(fullname, path, target)


def _is_kit_module(name: str) -> bool:
    return name.partition(".")[0] == "airbyte_cdk"
