"""Old manifests: translates former syntax of the language to today's.

A manifest counts as old if it uses removed syntax: `$options`, `*ref(...)`, or an old type. Airbyte refuses such
manifests. Fields that Airbyte ignores in today's manifests, such as `stream_slicer`, keep their former meaning only in
an old manifest; in all others they are ignored here too.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from cdk.base.first_use import lazy_pattern
from cdk.base.values import JsonObject, JsonValue

Node: TypeAlias = JsonObject

_OLD_REF = lazy_pattern(r"\*ref\(([^()]+)\)")
_BRACES = lazy_pattern(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_OPTIONS = lazy_pattern(r"(?<![\w.'\"])options(?=\s*[\[.])")
_SHORT = lazy_pattern(r"(\d+)([hdwmyHDWMY])")

_RENAMED = {
    "CsvParser": "CsvDecoder",
    "CustomStreamSlicer": "CustomPartitionRouter",
    "DatetimeStreamSlicer": "DatetimeBasedCursor",
    "JsonLineParser": "JsonlDecoder",
    "JsonParser": "JsonDecoder",
    "JsonSchema": "JsonFileSchemaLoader",
    "LimitPaginator": "DefaultPaginator",
    "ListStreamSlicer": "ListPartitionRouter",
    "SubstreamSlicer": "SubstreamPartitionRouter",
}
_FIELDS = {
    "DatetimeStreamSlicer": {
        "stream_state_field_start": "partition_field_start",
        "stream_state_field_end": "partition_field_end",
    },
    "DpathExtractor": {"field_pointer": "field_path"},
    "LimitPaginator": {"limit_option": "page_size_option"},
    "ListStreamSlicer": {"slice_values": "values"},
    "ParentStreamConfig": {"stream_slice_field": "partition_field"},
}
# Fields of components that may be written without their type.
_ANYWHERE = {"field_pointer": "field_path", "stream_slice_field": "partition_field"}
_REBUILT = frozenset({
    "CartesianProductStreamSlicer", "CompositeRawDecoder", "GzipJsonDecoder", "GzipParser",
    "InterpolatedRequestOptionsProvider", "SingleSlice",
})  # fmt: skip
FORMER_TYPES: Mapping[str, str | None] = {**dict.fromkeys(_REBUILT), **_RENAMED}
"""The types of old manifests and their names today; None for a type without a direct successor."""
_REQUEST = ("request_parameters", "request_headers", "request_body_data", "request_body_json")

REMOVED_TYPES: Mapping[str, str] = {
    "InterpolatedRequestOptionsProvider": "put its fields into the HttpRequester",
    "PerPartitionCursor": "use incremental_sync and partition_router, which are combined automatically",
}
"""What to write instead of a removed type."""
REPLACED_FIELDS: Mapping[str, str] = {
    "field_pointer": "field_path",
    "limit_option": "page_size_option",
    "request_options_provider": "request_parameters and request_headers of the requester",
    "slice_values": "values",
    "stream_cursor_field": "cursor_field of incremental_sync",
    "stream_slice_field": "partition_field",
    "stream_slicer": "partition_router, or incremental_sync of the stream",
    "urls_extractor": "download_target_extractor",
    "urls_requester": "download_target_requester",
}
"""Fields that are ignored unless the manifest is old, and their replacements today."""


def migrate(manifest: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return a manifest with the old syntax of parameters and references translated to today's.

    Returns the manifest itself if it uses no such syntax.
    """
    usage = _LegacyUsage()
    usage.look(manifest)
    return _Rewritten(parameters=usage.options).node(manifest) if usage.old_syntax else manifest


def adapt(root: Node, *, old: bool = False) -> Node:
    """Return a manifest without references, translated to today's types; itself if it has no old type and is not `old`.

    Parts that are shared stay shared.
    """
    usage = _LegacyUsage()
    usage.look(root)
    return _Adapted().node(root) if old or usage.old_types else root


class _LegacyUsage:
    """Which old syntax a manifest uses. Visits each part once, however often it is referenced."""

    def __init__(self) -> None:
        self.options = self.references = self.old_types = False
        self._seen: set[int] = set()

    @property
    def old_syntax(self) -> bool:
        return self.options or self.references

    def look(self, value: JsonValue) -> None:
        if isinstance(value, str):
            self.references |= value.startswith("*ref(")
        elif isinstance(value, Mapping | list) and id(value) not in self._seen:
            self._seen.add(id(value))
            if isinstance(value, list):
                for part in value:
                    self.look(part)
                return
            if (kind := value.get("type")) is not None:
                self.old_types |= isinstance(kind, str) and (kind in FORMER_TYPES or _is_old(value))
            self.options |= "$options" in value
            for part in value.values():
                self.look(part)


def _is_old(value: Mapping[str, JsonValue]) -> bool:
    match value:
        case {"type": "DpathExtractor", "field_pointer": _}:
            return "field_path" not in value
        case {"type": "SessionTokenAuthenticator", "login_url": _}:
            return "login_requester" not in value
        case _:
            return False


class _Walk:
    """Transforms every object of a manifest, each of them once."""

    def __init__(self) -> None:
        self._known: dict[int, JsonValue] = {}

    def of(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, Mapping | list):
            return value
        if id(value) not in self._known:
            if isinstance(value, list):
                self._known[id(value)] = [self.of(part) for part in value]
            else:
                self._known[id(value)] = self.object({name: self.of(part) for name, part in value.items()})
        return self._known[id(value)]

    def node(self, value: Mapping[str, JsonValue]) -> Node:
        """Transform the whole manifest, which stays an object."""
        changed = self.of(value)
        assert isinstance(changed, dict)
        return changed

    def text(self, value: str) -> str:
        return value

    def object(self, value: Node) -> JsonValue:
        return value


class _Rewritten(_Walk):
    """Rewrites `*ref(a.b)` to `#/a/b`, and `$options` to `$parameters`, also in expressions."""

    def __init__(self, *, parameters: bool) -> None:
        super().__init__()
        self._parameters = parameters

    def text(self, value: str) -> str:
        if (link := _OLD_REF.fullmatch(value)) is not None:
            return "#/" + re.sub(r"\[(\d+)\]", r"/\1", link[1].strip()).replace(".", "/")
        if not self._parameters or "options" not in value:
            return value
        return _BRACES.sub(lambda found: _OPTIONS.sub("parameters", found[0]), value)

    def object(self, value: Node) -> Node:
        if "$options" not in value:
            return value
        rest = {name: part for name, part in value.items() if name not in {"$options", "$parameters"}}
        # `$options: "*ref(definitions.x)"` is already a string here; it is resolved later, with all other references.
        own, newer = value["$options"], value.get("$parameters")
        newer = newer if isinstance(newer, dict) else {}
        return {**rest, "$parameters": {**own, **newer} if isinstance(own, dict) else own}


class _Adapted(_Walk):
    """Translates old types and fields to today's. Works from the inside out, so children are already translated."""

    def object(self, value: Node) -> JsonValue:
        kind = value.get("type")
        if isinstance(kind, str):
            _rename(value, _FIELDS.get(kind, {}))
            if (rebuild := _REBUILDS.get(kind)) is not None:
                return rebuild(value)
            if kind in _RENAMED:
                value["type"] = _RENAMED[kind]
        else:
            _rename(value, _ANYWHERE)
        if value.get("inject_into") == "path":
            return {"type": "RequestPath"}
        if "request_options_provider" in value:
            _lift_request(value)
        if isinstance(value.get("retriever"), dict):
            _lift_slicer(value)
        return value


def _rename(value: Node, names: Mapping[str, str]) -> None:
    for old, new in names.items():
        if old in value:
            value.setdefault(new, value.pop(old))


def _lift_request(requester: Node) -> None:
    provider = requester.pop("request_options_provider")
    if isinstance(provider, Mapping):
        for name in _REQUEST:
            if name in provider:
                requester.setdefault(name, provider[name])


def _lift_slicer(stream: Node) -> None:
    """Split up the slicer of a stream: today its cursor belongs to the stream, and its partitions to the retriever."""
    retriever = stream["retriever"]
    assert isinstance(retriever, dict)
    retriever = dict(retriever)
    slicer = retriever.pop("stream_slicer", None)
    slicers = slicer if isinstance(slicer, list) else [] if slicer is None else [slicer]
    cursors = [item for item in slicers if isinstance(item, Mapping) and item.get("type") == "DatetimeBasedCursor"]
    routers = [item for item in slicers if item not in cursors]
    if cursors:
        stream.setdefault("incremental_sync", cursors[0])
    if routers:
        retriever.setdefault("partition_router", routers if len(routers) > 1 else routers[0])
    cursor, named = stream.get("incremental_sync"), stream.pop("stream_cursor_field", None)
    if named and isinstance(cursor, dict) and "cursor_field" not in cursor:
        stream["incremental_sync"] = {**cursor, "cursor_field": named}
    stream.pop("checkpoint_interval", None)
    stream["retriever"] = retriever


def _paginator(value: Node) -> Node:
    size, strategy = value.pop("page_size", None), value.get("pagination_strategy")
    value.pop("url_base", None)
    if size is not None and isinstance(strategy, dict):
        value["pagination_strategy"] = {"page_size": size, **strategy}
    return {**value, "type": "DefaultPaginator"}


def _datetime(value: Node) -> Node:
    for name in ("step", "lookback_window", "cursor_granularity"):
        if isinstance(text := value.get(name), str) and (short := _SHORT.fullmatch(text.strip())) is not None:
            unit = short[2].upper()
            value[name] = f"PT{short[1]}H" if unit == "H" else f"P{short[1]}{unit}"
    return {**value, "type": "DatetimeBasedCursor"}


def _product(value: Node) -> JsonValue:
    slicers = value.get("stream_slicers")
    return [part for part in slicers if part is not None] if isinstance(slicers, list) else []


def _session(value: Node) -> Node:
    old = "login_url" in value and "login_requester" not in value
    return {**value, "type": "LegacySessionTokenAuthenticator"} if old else value


def _gzip(value: Node) -> Node:
    return {"type": "GzipDecoder", "decoder": value.get("inner_parser") or {"type": "JsonDecoder"}}


_REBUILDS: Mapping[str, Callable[[Node], JsonValue]] = {
    "CartesianProductStreamSlicer": _product,
    "CompositeRawDecoder": lambda value: value.get("parser"),
    "DatetimeStreamSlicer": _datetime,
    "GzipJsonDecoder": _gzip,
    "GzipParser": _gzip,
    "LimitPaginator": _paginator,
    "SessionTokenAuthenticator": _session,
    "SingleSlice": lambda _: None,
}
