"""Decides which responses are collections of records, and where in them the records lie."""

from collections.abc import Mapping

from msgspec import Struct

from cdk.authoring.drafts.names import COMPANIONS, RECORD_LISTS, plain, segments, shape, singular
from cdk.authoring.drafts.openapi.description import Operation
from cdk.authoring.drafts.openapi.schemas import Schemas
from cdk.base.values import JsonValue, as_object

# fmt: off
_AROUND = frozenset(
    {
        "count", "total", "size", "limit", "offset", "page", "pages", "next", "previous", "prev", "first", "last",
        "start", "end", "cursor", "token", "more", "has", "meta", "metadata", "links", "link", "paging", "marker",
        "pagination", "url", "uri", "self", "object", "kind", "etag", "per", "status", "ok", "success", "warnings",
        "type", "schema", "number", "index", "order", "sort", "errors", "request", "id", "info", "message", "code",
    }
)
# fmt: on
"""Words in the names of properties that an envelope has besides its records."""


class RecordList(Struct, frozen=True):
    """The records of a response. path: of their list. items: the schema of a record, as in the description."""

    path: tuple[str, ...]
    items: JsonValue
    why: str


def record_list(operation: Operation, schemas: Schemas) -> RecordList | str:
    """Return the list of records in the response of an operation, or the reason why there is none."""
    if operation.schema is None:
        return "no JSON response is described"
    body = schemas.flat(operation.schema)
    if shape(operation.path).endswith("{}"):
        # Such a path usually reads a single object.
        return _of_items(body, schemas) if body.get("type") == "array" else "it reads one object by its key"
    if operation.path.partition("#")[2]:
        return "the path has a fragment, which is not sent"
    match body.get("type"):
        case "array":
            return _of_items(body, schemas)
        case "object":
            return _in_object(body, (segments(operation.resource_path) or [""])[-1], schemas, ())
        case kind:
            return (
                f"the response is {'of an unknown type' if kind is None else f'a {kind}'}, expected a list of objects"
            )


def _of_items(array: Mapping[str, JsonValue], schemas: Schemas) -> RecordList | str:
    kind = schemas.flat(array.get("items")).get("type")
    if kind == "object":
        return RecordList((), array.get("items"), "the body is a list")
    return f"its list has elements of {'an unknown type' if kind is None else f'the type {kind}'}, expected objects"


def _in_object(body: Mapping[str, JsonValue], name: str, schemas: Schemas, path: tuple[str, ...]) -> RecordList | str:
    properties = schemas.fields(body)
    lists = [key for key, part in properties.items() if part.get("type") == "array"]
    of_objects = [key for key in lists if schemas.flat(properties[key].get("items")).get("type") == "object"]
    named = [key for key in of_objects if singular(key) == singular(name)]
    of_objects = [key for key in of_objects if plain(key) not in COMPANIONS] or of_objects
    enveloped = [key for known in RECORD_LISTS for key in of_objects if plain(key) == known]
    for key in (*named, *enveloped):
        why = "has the name of the path" if key in named else "is a common name for it"
        return _unwrapped(RecordList((*path, key), properties[key].get("items"), f"`{key}` {why}"), name, schemas)
    others = [key for key in properties if key not in lists]
    if len(of_objects) == 1 and all(_AROUND.intersection(singular(key)) for key in others):
        key = of_objects[0]
        return RecordList((*path, key), properties[key].get("items"), f"`{key}` is the one list of objects")
    for key, part in properties.items():
        if part.get("type") == "object" and plain(key) in RECORD_LISTS and len(path) < 2:  # noqa: PLR2004 - levels
            inner = _in_object(part, name, schemas, (*path, key))
            if isinstance(inner, RecordList):
                return inner
    if len(of_objects) > 1:
        return f"the response has several lists: {', '.join(of_objects)}"
    return "the response is one object, expected a list of objects"


def _unwrapped(wrapped: RecordList, name: str, schemas: Schemas) -> RecordList:
    """Unwrap records from elements with only objects as properties: take the property with the path's name."""
    parts = as_object(schemas.flat(wrapped.items).get("properties"))
    own = [key for key in parts if singular(key) == singular(name)]
    if not own or any(schemas.flat(part).get("type") != "object" for part in parts.values()):
        return wrapped
    why = f"{wrapped.why}, and `{own[0]}` in each of its elements has the name of the path"
    return RecordList((*wrapped.path, "*", own[0]), parts[own[0]], why)
