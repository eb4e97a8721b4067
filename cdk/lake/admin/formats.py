"""Converts states to and from other formats: Airbyte's state messages, Singer's bookmarks, dlt's state."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from cdk.base.errors import BadState, StateError
from cdk.base.values import JsonValue, as_object
from cdk.base.wording import did_you_mean
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.delta.table_state import TableState
from cdk.state.wire import decode, encode
from cdk.streams.stream import Stream


def message(location: StreamLocation, saved: TableState, *, exact: bool) -> JsonValue:
    """Return a stream's state as a STREAM message. exact: with the entries that otherwise only tables store."""
    blob = saved.state
    if not exact:
        blob = encode(decode(blob), incremental=saved.sync_mode == "incremental")
    descriptor = {"name": location.stream, **({"namespace": location.namespace} if location.namespace else {})}
    return {"type": "STREAM", "stream": {"stream_descriptor": descriptor, "stream_state": blob or {}}}


def is_singer(document: JsonValue) -> TypeGuard[Mapping[str, JsonValue]]:
    """Whether a document is a Singer state, or the message that carries one."""
    if not isinstance(document, Mapping):
        return False
    return "bookmarks" in document or (
        document.get("type") == "STATE" and "bookmarks" in as_object(document.get("value"))
    )


def from_singer(document: Mapping[str, JsonValue], streams: Mapping[str, Stream]) -> Iterator[tuple[str, JsonValue]]:
    """Yield the name and the state, in the kit's format, of each stream that has a bookmark.

    Accepts `replication_key` with `replication_key_value`, `partitions` of these with their `context`, and the older
    map from the name of the cursor to its value. Raises BadState and StateError: when a bookmark has another format, or
    the source lacks the stream or the cursor.
    """
    bookmarks = (document if "bookmarks" in document else as_object(document.get("value")))["bookmarks"]
    if not isinstance(bookmarks, Mapping):
        raise BadState("bookmarks", bookmarks, "a map from stream to bookmark")
    for name, bookmark in bookmarks.items():
        path = f"bookmarks.{name}"
        if name not in streams:
            raise StateError(f"the source has no such stream{did_you_mean(name, streams)}", path=path)
        field = streams[name].cursor_field
        if field is None:
            raise StateError("the stream has no cursor, so it cannot start from a bookmark", path=path)
        if not isinstance(bookmark, Mapping):
            raise BadState(path, bookmark, "a map with replication_key_value")
        if partitions := bookmark.get("partitions"):
            yield name, {"use_global_cursor": False, "states": list(_partitions(partitions, field, path))}
        elif bookmark:
            yield name, _cursor(bookmark, field, path)


def is_dlt(document: JsonValue) -> TypeGuard[Mapping[str, JsonValue]]:
    """Whether a document is the state of a dlt pipeline."""
    return isinstance(document, Mapping) and "sources" in document and not {"type", "stream"} & document.keys()


def from_dlt(document: Mapping[str, JsonValue], streams: Mapping[str, Stream]) -> Iterator[tuple[str, JsonValue]]:
    """Yield the name and the state, in the kit's format, of each stream named like a resource with an `incremental`.

    Uses its `last_value`. Its hashes of rows with that value (`unique_hashes`) mean nothing here, so these rows are
    read once more. Raises BadState and StateError: when the format is unknown, the source lacks the stream or the
    cursor, or several sources have the resource.
    """
    paths: dict[str, str] = {}
    for path, name, cursors in _resources(document["sources"]):
        if name not in streams:
            raise StateError(f"the source has no such stream{did_you_mean(name, streams)}", path=path)
        if name in paths:
            raise StateError(f"{paths[name]} has a state of the same stream; leave one of them out", path=path)
        paths[name] = path
        field = streams[name].cursor_field
        if field is None:
            raise StateError("the stream has no cursor, so it cannot start from a last value", path=path)
        if not isinstance(cursors, Mapping) or not isinstance(incremental := cursors.get(field), Mapping):
            raise BadState(f"{path}.incremental", cursors, f"a map with {field!r}, the stream's cursor")
        if (value := incremental.get("last_value")) is not None:
            yield name, {field: _untyped(value)}


def _resources(sources: JsonValue) -> Iterator[tuple[str, str, JsonValue]]:
    """Yield the path, the name and the cursors of each resource with an `incremental`."""
    for source, source_state in sources.items() if isinstance(sources, Mapping) else ():
        resources = source_state.get("resources") if isinstance(source_state, Mapping) else None
        for name, resource in resources.items() if isinstance(resources, Mapping) else ():
            if isinstance(resource, Mapping) and resource.get("incremental"):
                yield f"sources.{source}.resources.{name}", name, resource["incremental"]


def _untyped(value: JsonValue) -> JsonValue:
    """Return a value of dlt without its type prefix, a character for decimals, timestamps, dates, ..."""
    return value[1:] if isinstance(value, str) and "\uf026" <= value[:1] <= "\uf02f" else value


def _partitions(items: JsonValue, field: str, path: str) -> Iterator[JsonValue]:
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise BadState(f"{path}.partitions", items, "a list of bookmarks, each with its context")
    for i, item in enumerate(items):
        where = f"{path}.partitions[{i}]"
        match item:
            case {"context": Mapping() as context}:
                rest = {key: value for key, value in as_object(item).items() if key != "context"}
                yield {"partition": dict(context), "cursor": _cursor(rest, field, where)}
            case _:
                raise BadState(where, item, "a bookmark with a context")


def _cursor(bookmark: Mapping[str, JsonValue], field: str, path: str) -> Mapping[str, JsonValue]:
    """Return a bookmark as a cursor value. Refuses progress markers, which record an incomplete read out of order."""
    if "progress_markers" in bookmark:
        text = "a finished bookmark: complete the read in Singer, or remove the markers"
        raise BadState(path, "progress_markers", text)
    key, value = bookmark.get("replication_key", field), bookmark.get("replication_key_value", bookmark.get(field))
    if key != field:
        raise BadState(f"{path}.replication_key", key, f"{field!r}, the stream's cursor")
    if value is None:
        raise BadState(path, dict(bookmark), f"a replication_key_value, or a value of {field!r}")
    return {field: value}
