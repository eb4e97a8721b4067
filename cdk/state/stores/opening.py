"""open_store: opens a store from a URL or settings, and imports only what the chosen store needs."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import TypeAlias, cast

from msgspec import Struct

from cdk.base.documents import path_of
from cdk.base.errors import ConfigError
from cdk.base.values import JsonValue, as_object, json_kind
from cdk.base.wording import did_you_mean
from cdk.state.stores.objects import ObjectStore
from cdk.state.stores.protocol import LogStore

GROUP = "cdk.state_stores"
"""Group of the entry points by which packages add stores. Each names an `OpenStore`."""

OpenStore: TypeAlias = Callable[[Mapping[str, JsonValue]], LogStore]
"""Makes a store from the `config` of `state_provider`, without I/O. Raises ConfigError: when a key is wrong."""

_PATH = "state_provider"


class _Builtin(Struct, frozen=True):
    """A store of the kit: its module and class, its required and optional keys, and the extra that it needs."""

    module: str
    name: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    extra: str = ""

    def open(self, config: Mapping[str, JsonValue]) -> LogStore:
        """Make the store from its config."""
        _check(config, f"{_PATH}.config", self.required, self.optional)
        store: LogStore = getattr(import_module(self.module), self.name)(**config)
        return store


_BUILTIN = {
    "local": _Builtin("cdk.state.stores.local", "LocalStore", ("path",)),
    "memory": _Builtin("cdk.state.stores.memory", "MemoryStore"),
    "sql": _Builtin("cdk.state.stores.sql", "SqlStore", ("url",), extra="sql"),
    "object": _Builtin("cdk.state.stores.cloud", "CloudStore", ("url",), ("options",), extra="object"),
}


def open_store(where: str | Mapping[str, JsonValue], *, writes: bool = True) -> LogStore:
    """Open a store by its URL, a path, or the settings `{type: ..., config: {...}}`.

    | type | config | URL |
    |---|---|---|
    | `local` | `path` | a path, `file:///var/lib/state` |
    | `memory` | | `memory:` |
    | `sql` | `url` | `sqlite:///state.db`, `postgresql://user@host/database`, `mysql://`, `mariadb://` |
    | `object` | `url`, `options` | `s3://bucket/folder`, `gs://`, `az://` |
    | an entry point of `cdk.state_stores` | as documented there | |

    writes: prepare the store, which proves that it refuses to create an object twice; false for a run that only reads.
    Raises ConfigError: for an unknown type or key, a missing extra, or a store that cannot be used.
    """
    settings = _settings(where) if isinstance(where, str) else where
    _check(settings, _PATH, ("type",), ("config",))
    store = _open(str(settings["type"]), as_object(settings.get("config")))
    if writes:
        store.prepare()
    return store


def open_objects(where: str, options: Mapping[str, JsonValue] | None = None) -> ObjectStore:
    """Open a local folder (a path, `file:///var/lib`) or a folder of an object store (`s3://bucket/folder`).

    URLs are those of `open_store`, except for databases, which hold no objects.
    options: of an object store, see `cdk.state.stores.cloud.CloudStore`. The store is not prepared.
    Raises ConfigError: for an unknown object store or option, or a missing package.
    """
    settings = _settings(where)
    kind, config = str(settings["type"]), as_object(settings.get("config"))
    if kind in {"local", "memory"}:
        return cast("ObjectStore", _open(kind, config))
    return cast("ObjectStore", _open("object", {"url": where, "options": options or {}}))


def _open(kind: str, config: Mapping[str, JsonValue]) -> LogStore:
    points = {point.name: point for point in entry_points(group=GROUP)}
    needs = ""
    try:
        if (builtin := _BUILTIN.get(kind)) is not None:
            needs = f"pip install 'spark-cdk[{builtin.extra}]'"
            return builtin.open(config)
        if (point := points.get(kind)) is not None:
            needs = f"it belongs to the package {point.dist.name if point.dist else point.value!r}"
            make: OpenStore = point.load()
            return make(config)
    except ImportError as error:
        raise ConfigError(f"the type {kind!r} cannot be used ({error}); {needs}", path=f"{_PATH}.type") from error
    raise ConfigError(f"unknown type {kind!r}{did_you_mean(kind, [*_BUILTIN, *points])}", path=f"{_PATH}.type")


def _settings(url: str) -> Mapping[str, JsonValue]:
    """Return the settings of the store at a URL or path."""
    scheme, colon, _ = url.partition(":")
    if url == "memory:":
        return {"type": "memory"}
    if url.startswith("file:"):
        return {"type": "local", "config": {"path": str(path_of(url))}}
    if not colon or "/" in scheme:
        return {"type": "local", "config": {"path": url}}
    kind = "sql" if scheme.partition("+")[0] in {"sqlite", "postgresql", "mysql", "mariadb"} else "object"
    return {"type": kind, "config": {"url": url}}


def _check(settings: JsonValue, path: str, required: tuple[str, ...], optional: tuple[str, ...]) -> None:
    """Refuse unknown keys and wrong types: required keys are strings, optional ones are maps."""
    if not isinstance(settings, Mapping):
        raise ConfigError(f"found {json_kind(settings)}, expected keys and values", path=path)
    for name in settings:
        if name not in (*required, *optional):
            raise ConfigError(f"unknown key {name!r}{did_you_mean(name, (*required, *optional))}", path=path)
    for name in required:
        if not isinstance(settings.get(name), str):
            raise ConfigError(f"found {json_kind(settings.get(name))}, expected a string", path=f"{path}.{name}")
    for name in optional:
        if not isinstance(settings.get(name) or {}, Mapping):
            raise ConfigError(f"found {json_kind(settings[name])}, expected keys and values", path=f"{path}.{name}")
