"""Finds the Source of a connector by a file, a name, an entry point or a module."""

import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from cdk import sources
from cdk.base.errors import ConfigError
from cdk.base.logs import logger
from cdk.base.process.connector_line import connector_line, error_with_line, names_line
from cdk.base.wording import did_you_mean, nearest
from cdk.streams.source import Source, connector_name
from cdk.streams.stream import Stream

T = TypeVar("T")

ENTRY_POINTS = "cdk.connectors"
_PACKAGE = "connectors"
_FOLDERS: set[str] = set()
"""The folders that were added to `sys.path` for connectors."""


def find_source(connector: str) -> Source:
    """Return the source of a connector.

    connector: the path of a `.py` file, a name in `connectors`, an entry point, or a dotted module.
    A module's source is its attribute `source`, or the only Source subclass that it defines; a module that defines
    only streams becomes a source of these. An entry point, or `source`, may also be the Path of a manifest.
    A source without a name gets it from `connector`, see `connector_name`.

    Raises ConfigError: when there is no such connector (suggesting the nearest spelling), when it cannot be imported,
    or when it defines no source or several.
    """
    if connector.endswith(".py"):
        return source_of(_from_file(Path(connector)), connector_name(connector))
    name = connector.replace("-", "_")
    if "." not in name and _exists(f"{_PACKAGE}.{name}"):
        return source_of(_import(f"{_PACKAGE}.{name}"), name)
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import, and only needed here

    installed = entry_points(group=ENTRY_POINTS)
    if connector in installed.names:
        point = installed[connector]
        return source_of(_run_connector_code(point.load, f"{connector} ({point.value})"), connector)
    if _exists(name):
        return source_of(_import(name), name)
    hint = did_you_mean(connector, [*_bundled_names(), *installed.names])
    why = f"found no connector {connector!r}{hint}; give a path ending in .py, a connector's name or a dotted module"
    raise ConfigError(why)


def source_of(candidate: object, name: str) -> Source:
    """Return the source in `candidate`: a Source, a subclass of it, a module, or the Path of a manifest.

    Raises ConfigError: as find_source. Raises ManifestError: as `manifest_source`.
    """
    match candidate:
        case Source():
            source = candidate
        case Path():
            # Whoever imported the code that names the manifest trusts its components as well.
            source = sources.manifest_source(candidate, trusted=True)
            source.name = name
        case type() if issubclass(candidate, Source):
            source = candidate()
        case ModuleType():
            source = _source_in(candidate, name)
        case _:
            expected = "a Source, the Path of a manifest, or a module that defines a Source or has one as `source`"
            raise ConfigError(f"{name}: found a {type(candidate).__name__}, expected {expected}")
    source.name = source.name or name
    return source


def _source_in(module: ModuleType, name: str) -> Source:
    """Return the source that a module assigns to `source` or defines, else a new source of the module's streams."""
    if isinstance(source := vars(module).get("source"), Source | Path):
        return source_of(source, name)
    defined = [cls for cls in _classes(module) if issubclass(cls, Source) and not inspect.isabstract(cls)]
    if len(defined) > 1:
        names = ", ".join(cls.__name__ for cls in defined)
        raise ConfigError(f"{name}: found the sources {names}, expected one; set `source = ...` in the module")
    if defined:
        source = defined[0]()
        for cls in source.stream_classes:
            _check_implemented(cls, name, needed=True)
        return source
    classes = [cls for cls in _classes(module) if issubclass(cls, Stream)]
    # Classes that others derive from count as bases only. If a base is a stream as well, a Source must list it.
    leaves = [cls for cls in classes if not any(cls is not other and issubclass(other, cls) for other in classes)]
    for cls in leaves:
        _check_implemented(cls, name, needed=len(leaves) == 1)
    _warn_about_bases(classes, leaves, name)
    if not (streams := [cls for cls in leaves if not inspect.isabstract(cls)]):
        raise ConfigError(f"{name}: found neither a Source nor a Stream in the module, expected one")
    source = Source()
    source.stream_classes = streams
    return source


def _warn_about_bases(classes: Sequence[type], leaves: Sequence[type], name: str) -> None:
    """Warn of base classes that look like streams, because they have a schema, but are left out."""
    for base in classes:
        if base not in leaves and not inspect.isabstract(base) and isinstance(vars(base).get("schema"), Mapping | type):
            derived = next(cls.__name__ for cls in leaves if issubclass(cls, base))
            text = (
                "%s: %s has a schema, but is not read, because %s derives from it; if it is a stream, list both in %s"
            )
            logger.warning(text, name, base.__name__, derived, "the `stream_classes` of a Source")


def _classes(module: ModuleType) -> Iterator[type]:
    """Yield the classes that a module, or a package anywhere inside it, defines, in the module's order."""
    for value in vars(module).values():
        if inspect.isclass(value) and f"{value.__module__}.".startswith(f"{module.__name__}."):
            yield value


def _check_implemented(cls: type, name: str, *, needed: bool) -> None:
    """Check that a stream implements its abstract methods.

    Raises ConfigError: when one is missing and the class is needed, or has a method with a similar name.
    """
    for missing in sorted(getattr(cls, "__abstractmethods__", ())):
        near = nearest(missing, [own for own in vars(cls) if not own.startswith("_")])
        if near is not None or needed:
            hint = "" if near is None else f", but has {near!r}; did you mean that?"
            raise ConfigError(f"{name}: the stream {cls.__name__} does not implement `{missing}`{hint}")


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError("expected a Python file, found none", path=str(path))
    # As if Python had been started with this file: it may import modules beside it, even while it reads.
    _prepend_to_path(path.resolve().parent)
    name = path.stem if path.stem not in sys.modules else f"connector_{path.stem}"
    spec = spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Pickle refers to a stream's class by the name of its module.
    sys.modules[name] = module
    _run_connector_code(partial(spec.loader.exec_module, module), str(path))
    return module


def _import(name: str) -> ModuleType:
    return _run_connector_code(partial(import_module, name), name)


def _run_connector_code(load: Callable[[], T], where: str) -> T:
    """Call `load`, which runs code of the connector. Raises ConfigError: when that code fails."""
    try:
        return load()
    except ConfigError as error:
        # The connector's line is added only where the error does not name one already.
        line = "" if names_line(str(error)) else connector_line(error)
        raise ConfigError(f"{error}{line}", path=where) from error
    except Exception as error:
        raise ConfigError(f"cannot be imported: {error_with_line(error)}", path=where) from error


def _exists(module: str) -> bool:
    if str(Path.cwd()) not in sys.path:
        _prepend_to_path(Path.cwd())
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _prepend_to_path(folder: Path) -> None:
    """Put a folder first in the import path."""
    if str(folder) not in _FOLDERS:
        _FOLDERS.add(str(folder))
    else:
        sys.path.remove(str(folder))
    sys.path.insert(0, str(folder))


def is_installed(name: str) -> bool:
    """Whether Python or an installed package has a module of this name. Modules beside connectors do not count."""
    if name in sys.builtin_module_names:
        return True
    spec = PathFinder.find_spec(name, [folder for folder in sys.path if folder not in _FOLDERS])
    # A folder without code has a spec as well (a namespace package), but no origin.
    return spec is not None and spec.origin is not None


def _bundled_names() -> list[str]:
    spec = find_spec(_PACKAGE)
    places = spec.submodule_search_locations if spec else None
    return [module.name for module in pkgutil.iter_modules(places)] if places else []
