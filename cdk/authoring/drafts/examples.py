"""Examples: values that fit a JSON Schema, for responses that tests read."""

from collections.abc import Mapping, Sequence

from cdk.authoring.drafts.loose_json import sequence
from cdk.base.values import JsonValue, as_object

_OF_FORMAT = {"date-time": "2024-03-01T00:00:00Z", "date": "2024-03-01"}
_OF_TYPE: Mapping[str, JsonValue] = {"integer": 1, "number": 1.5, "boolean": True}


def example_of(schema: Mapping[str, JsonValue], text: str = "1") -> JsonValue:
    """A value that fits a schema as `Schemas` and the config of a draft have it. text: of one that is any string."""
    if choices := sequence(schema.get("enum")):
        return choices[0]
    kinds = schema.get("type")
    kind = next((str(each) for each in (sequence(kinds) or [kinds]) if each != "null"), "")
    match kind:
        case "object":
            return {name: example_of(as_object(part)) for name, part in as_object(schema.get("properties")).items()}
        case "array":
            return [example_of(as_object(schema["items"]))] if "items" in schema else []
        case _:
            return _OF_TYPE.get(kind, _OF_FORMAT.get(str(schema.get("format")), text))


def inside(path: Sequence[str], records: Sequence[JsonValue]) -> JsonValue:
    """A body with records at a path."""
    body: JsonValue = list(records)
    for name in reversed(path):
        body = {name: body}
    return body
