"""Finds the class that a custom component names, and imports its module, which may import from `airbyte_cdk`."""

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from inspect import getmembers, isclass
from pathlib import Path
from types import ModuleType

from cdk.base.errors import ManifestError
from cdk.base.process.connector_line import error_with_line
from cdk.base.values import JsonValue
from cdk.base.wording import did_you_mean
from cdk.compat.airbyte.custom_object import running
from cdk.compat.loading.served_names import HOMES, PLACES
from cdk.declarative.model.context import BuildContext

DOCUMENTED = "docs/reference/custom-components.md"
"""The page that lists the names."""

_PARENTS = {
    ".".join(parts[:i]) for module in PLACES for parts in [module.split(".")] for i in range(1, len(parts))
} - PLACES.keys()


class _Served(ModuleType):
    """A module that looks its names up when they are imported."""

    def __getattr__(self, name: str) -> object:
        if name not in PLACES.get(self.__name__, ()):
            why = f"{self.__name__} has no {name!r} here; the supported names are listed in {DOCUMENTED}"
            raise AttributeError(why)
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
            why = f"{fullname} is not provided here; the supported names are listed in {DOCUMENTED}"
            raise ModuleNotFoundError(why, name=fullname)
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


CODE = "__injected_components_py"
CHECKSUMS = "__injected_components_py_checksums"

_HASHES = ("sha256", "md5")
_COMPONENTS = "components"


def custom_class(name: str, ctx: BuildContext, where: str) -> type:
    """Return the class that a component's `class_name` refers to.

    Raises ManifestError: the class is missing, or its module cannot be imported.
    """
    module_name, _, class_name = name.rpartition(".")
    if not module_name:
        raise ManifestError(f"{where}: found {name!r}, expected a module and a class, such as 'components.MyExtractor'")
    module = _module(module_name, ctx, where)
    kind = getattr(module, class_name, None)
    if not isclass(kind):
        hint = did_you_mean(class_name, [name for name, _ in getmembers(module, isclass)])
        raise ManifestError(f"{where}: {module.__file__ or module_name} has no class {class_name!r}{hint}")
    return kind


def _module(name: str, ctx: BuildContext, where: str) -> ModuleType:
    modules = ctx.runtime.modules
    if name not in modules:
        with _explained(where), serving(), running(ctx.runtime):
            modules[name] = _imported(name, ctx, where)
    return modules[name]


def _imported(name: str, ctx: BuildContext, where: str) -> ModuleType:
    if name.rpartition(".")[2] == _COMPONENTS:
        if ctx.config.get(CODE):
            return _injected(ctx.config, where)
        if ctx.runtime.custom is not None and ctx.runtime.custom.components is not None:
            return _from_file(ctx.runtime.custom.components, ctx.runtime.folder)
    if (file := _beside(name, ctx.runtime.folder)) is not None:
        return _from_file(file, ctx.runtime.folder)
    return import_module(name)


def _beside(name: str, folder: Path) -> Path | None:
    """The file beside the manifest that a module name refers to: for `source_x.a.b` it is `a/b.py`."""
    parts = name.split(".")
    for rest in (parts, parts[1:]):
        if rest and (file := folder.joinpath(*rest).with_suffix(".py")).is_file():
            return file.resolve()
    return None


def _from_file(file: Path, folder: Path) -> ModuleType:
    spec = spec_from_file_location(_module_name(file, folder.resolve()), file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ManifestError(f"there is no file {file}")
    module = module_from_spec(spec)
    # Classes look their module up by its name. A file that was loaded for another source is loaded again.
    sys.modules[spec.name] = module
    with _importable(folder.resolve().parent if (folder / "__init__.py").is_file() else folder.resolve()):
        spec.loader.exec_module(module)
    return module


def _module_name(file: Path, folder: Path) -> str:
    """The name under which a file is imported: inside a package for its folder, so that relative imports work.

    The `__init__.py` of the folder is not executed, since those of connectors start the connector.
    """
    inside = file.relative_to(folder) if file.is_relative_to(folder) else Path(file.name)
    home = folder if file.is_relative_to(folder) else file.parent
    name = f"custom_{hashlib.sha256(str(home).encode()).hexdigest()[:16]}"
    for part in (None, *inside.parts[:-1]):
        name, home = (name, home) if part is None else (f"{name}.{part}", home / part)
        sys.modules.setdefault(name, ModuleType(name)).__path__ = [str(home)]
    return f"{name}.{inside.stem}"


def _injected(config: Mapping[str, JsonValue], where: str) -> ModuleType:
    text, sums = config[CODE], config.get(CHECKSUMS)
    if not isinstance(text, str) or not isinstance(sums, Mapping) or not sums:
        raise ManifestError(f"{where}: the config has {CODE} without {CHECKSUMS}; add its sha256 or md5 there")
    for kind, expected in sums.items():
        if kind not in _HASHES:
            raise ManifestError(f"{where}: {CHECKSUMS} has the kind {kind!r}, expected sha256 or md5")
        if hashlib.new(kind, text.encode(), usedforsecurity=False).hexdigest() != expected:
            why = f"{where}: the {kind} of {CODE} does not match {CHECKSUMS}: the code was modified in transit"
            raise ManifestError(why)
    module = ModuleType(f"custom_injected_{hashlib.sha256(text.encode()).hexdigest()[:16]}")
    sys.modules[module.__name__] = module
    exec(compile(text, CODE, "exec"), module.__dict__)  # noqa: S102 - the user has allowed custom code
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


AIRBYTE_PACKAGES = frozenset(("anyascii", "backoff", "cachetools", "dateparser", "isodate", "pytz", "unidecode"))
"""The packages of the extra `airbyte`."""


@contextmanager
def _explained(where: str) -> Iterator[None]:
    try:
        yield
    except ManifestError:
        raise
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package == "airbyte_cdk" or "airbyte_cdk" in str(error):
            do = f"the names that can be imported are listed in {DOCUMENTED}"
        elif package in AIRBYTE_PACKAGES:
            do = "install the packages of Airbyte's images: `pip install 'spark-cdk[airbyte]'`"
        else:
            do = "install the package it belongs to"
        raise ManifestError(f"{where}: its code cannot be imported: {error}; {do}") from error
    except Exception as error:
        raise ManifestError(f"{where}: its code fails on import: {error_with_line(error)}") from error
