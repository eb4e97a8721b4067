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
"""The page that lists the names."""

_PARENTS = {
    ".".join(parts[:i]) for module in PLACES for parts in [module.split(".")] for i in range(1, len(parts))
} - PLACES.keys()


class _Served(ModuleType):
    """A module that looks its names up when they are imported."""

    def __getattr__(self, name: str) -> object:
        if name not in PLACES.get(self.__name__, ()):
            raise AttributeError(
                f"{self.__name__} has no {name!r} here; the supported names are listed in {DOCUMENTED}"
            )
        value = getattr(HOMES[name], name)
        setattr(self, name, value)
        return value


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Served(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []


class Finder(MetaPathFinder):
    """Finds the modules of `PLACES` and their parent packages.

    Takes precedence over an installed `airbyte_cdk`, so that a connector behaves the same on every machine. An
    installed `dpath` takes precedence over the one served here, see `_WithoutDpath`.
    """

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the interface of finders
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the module's spec; None for a module of another package.

        Raises ModuleNotFoundError: `airbyte_cdk` has no such module here.
        """
        if fullname in PLACES or fullname in _PARENTS:
            return ModuleSpec(fullname, _Loader(), is_package=True)
        if fullname.partition(".")[0] == "airbyte_cdk":
            raise ModuleNotFoundError(
                f"{fullname} is not provided here; the supported names are listed in {DOCUMENTED}", name=fullname
            )
        return None


@contextmanager
def serving() -> Iterator[None]:
    """Serve `airbyte_cdk` while custom code is imported.

    If another `airbyte_cdk` was imported before, it is restored afterwards. Otherwise the finder stays installed,
    because existing code also imports inside its functions.
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
    """Does not serve `dpath`, so that the installed package is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if fullname.startswith("dpath") else super().find_spec(fullname, path, target)


def _is_kit_module(name: str) -> bool:
    return name.partition(".")[0] == "airbyte_cdk"
