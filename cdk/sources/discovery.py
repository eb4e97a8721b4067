"""From what a person calls a connector to its Source."""

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

from cdk.base.errors import ConfigError
from cdk.base.logs import logger
from cdk.base.process.connector_line import connector_line, names_line
from cdk.base.wording import did_you_mean, nearest
from cdk.streams.source import Source, connector_name
from cdk.streams.stream import Stream

T = TypeVar("T")

ENTRY_POINTS = "cdk.connectors"
_PACKAGE = "connectors"
_FOLDERS: set[str] = set()
"""What was added to `sys.path` for connectors."""


def find_source(connector: str) -> Source:
    """The source of a connector: a path of a `.py` file, a name in `connectors`, an entry point or a dotted module.

    A module's source is its attribute `source`, or the one Source subclass it defines; a module that defines only
    streams is a source of these. One that has no name is named after what it was found by, see `connector_name`.

    Raises ConfigError: there is no such connector (with the nearest spelling), it cannot be imported, or it holds
    no source, or several.
    """
    if connector.endswith(".py"):
        return source_of(_from_file(Path(connector)), connector_name(connector))
    name = connector.replace("-", "_")
    if "." not in name and _exists(f"{_PACKAGE}.{name}"):
        return source_of(_import(f"{_PACKAGE}.{name}"), name)
    from importlib.metadata import entry_points  # noqa: PLC0415 - dear, and only needed here

    installed = entry_points(group=ENTRY_POINTS)
    if connector in installed.names:
        point = installed[connector]
        return source_of(_run(point.load, f"{connector} ({point.value})"), connector)
    if _exists(name):
        return source_of(_import(name), name)
    hint = did_you_mean(connector, [*_bundled(), *installed.names])
    raise ConfigError(f"found no connector {connector!r}{hint}; a path ends with .py, a module has dots")


def source_of(candidate: object, name: str) -> Source:
    """The source that `candidate` is or holds: a Source, a subclass of it, or a module. Raises ConfigError as above."""
    match candidate:
        case Source():
            source = candidate
        case type() if issubclass(candidate, Source):
            source = candidate()
        case ModuleType():
            source = _source_in(candidate, name)
        case _:
            raise ConfigError(
                f"{name}: found a {type(candidate).__name__}, expected a Source or a module that holds one"
            )
    source.name = source.name or name
    return source


def _source_in(module: ModuleType, name: str) -> Source:
    """The one source that a module names or defines; else one that has its streams."""
    if isinstance(source := vars(module).get("source"), Source):
        return source
    sources = [cls for cls in _defined(module) if issubclass(cls, Source)]
    if len(sources) > 1:
        names = ", ".join(cls.__name__ for cls in sources)
        raise ConfigError(f"{name}: found the sources {names}, expected one; say `source = ...` in the module")
    if sources:
        return sources[0]()
    classes = [cls for cls in _classes(module) if issubclass(cls, Stream)]
    # What others derive from is there for them. A base that is a stream, too, takes a Source that lists it.
    leaves = [cls for cls in classes if not any(cls is not other and issubclass(other, cls) for other in classes)]
    for cls in leaves:
        _check_written(cls, name, alone=len(leaves) == 1)
    _warn_of_bases(classes, leaves, name)
    if not (streams := [cls for cls in leaves if not inspect.isabstract(cls)]):
        raise ConfigError(f"{name}: found neither a Source nor a Stream in it, expected one")
    source = Source()
    source.stream_classes = streams
    return source


def _warn_of_bases(classes: Sequence[type], leaves: Sequence[type], name: str) -> None:
    """Warn of classes that are left out, for others derive from them, and have the schema of one stream."""
    for base in classes:
        if base not in leaves and not inspect.isabstract(base) and isinstance(vars(base).get("schema"), Mapping | type):
            derived = next(cls.__name__ for cls in leaves if issubclass(cls, base))
            text = "%s: %s has a schema, and is no stream here, for %s derives from it; if it is one, list both in %s"
            logger.warning(text, name, base.__name__, derived, "the `stream_classes` of a Source")


def _defined(module: ModuleType) -> Iterator[type]:
    """The concrete classes that a module, or a package anywhere inside it, defines; in the module's order."""
    return (value for value in _classes(module) if not inspect.isabstract(value))


def _classes(module: ModuleType) -> Iterator[type]:
    """The classes that a module, or a package anywhere inside it, defines; in the module's order."""
    for value in vars(module).values():
        if inspect.isclass(value) and f"{value.__module__}.".startswith(f"{module.__name__}."):
            yield value


def _check_written(cls: type, name: str, *, alone: bool) -> None:
    """Raise ConfigError: a stream lacks a method, and has one of nearly that name, or is the only stream there is."""
    for missing in sorted(getattr(cls, "__abstractmethods__", ())):
        near = nearest(missing, [own for own in vars(cls) if not own.startswith("_")])
        if near is not None or alone:
            hint = "" if near is None else f", and has {near!r}; is that the one?"
            raise ConfigError(f"{name}: the stream {cls.__name__} does not write `{missing}`{hint}")


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError("expected a Python file, found none", path=str(path))
    # Beside the file, as if Python had been started with it: it may import its neighbours, also while it reads.
    _look_into(path.resolve().parent)
    name = path.stem if path.stem not in sys.modules else f"connector_{path.stem}"
    spec = spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # Streams are pickled by the name of their module.
    sys.modules[name] = module
    _run(partial(spec.loader.exec_module, module), str(path))
    return module


def _import(name: str) -> ModuleType:
    return _run(partial(import_module, name), name)


def _run(load: Callable[[], T], where: str) -> T:
    """What `load` gives, which runs code of the connector. Raises ConfigError: that code fails."""
    try:
        return load()
    except ConfigError as error:
        # What says more closely where it is says so itself.
        line = "" if names_line(str(error)) else connector_line(error)
        raise ConfigError(f"{error}{line}", path=where) from error
    except Exception as error:
        words = f"{type(error).__name__}: {error}{connector_line(error)}"
        raise ConfigError(f"cannot be imported: {words}", path=where) from error


def _exists(module: str) -> bool:
    if str(Path.cwd()) not in sys.path:
        _look_into(Path.cwd())
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _look_into(folder: Path) -> None:
    """Have imports look into a folder first."""
    if str(folder) not in _FOLDERS:
        _FOLDERS.add(str(folder))
    else:
        sys.path.remove(str(folder))
    sys.path.insert(0, str(folder))


def is_installed(name: str) -> bool:
    """Whether a module of Python or of a package has a name; those beside connectors that were found do not count."""
    if name in sys.builtin_module_names:
        return True
    spec = PathFinder.find_spec(name, [folder for folder in sys.path if folder not in _FOLDERS])
    # A folder without code is found, too.
    return spec is not None and spec.origin is not None


def _bundled() -> list[str]:
    spec = find_spec(_PACKAGE)
    places = spec.submodule_search_locations if spec else None
    return [module.name for module in pkgutil.iter_modules(places)] if places else []
