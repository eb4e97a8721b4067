"""Schemas of a description as self-contained JSON Schema: no references, no `allOf`, and finite where they recur."""

from collections.abc import Iterator, Mapping

from cdk.authoring.drafts.openapi.description import Description
from cdk.base.values import SIMPLE_TYPES, JsonObject, JsonValue, as_list, as_object, as_string, kinds_of

_DEEPEST = 5
"""The deepest level of a record's schema; below it, any object is allowed."""

_MOST_FIELDS = 1000
"""The most fields of a record, at all levels together; beyond it, objects are not described."""

_MOST_PARTS = 8
"""The deepest nesting of `allOf` and the like."""

_DATES = ("date-time", "date")


class Schemas:
    """The schemas of a description."""

    def __init__(self, description: Description) -> None:
        self._description, self._remaining = description, 0

    def flat(self, value: JsonValue, depth: int = 0) -> Mapping[str, JsonValue]:
        """Return a schema with its `type` and the `properties` of all its parts, which are themselves unchanged."""
        schema = self._description.resolved(value)
        if depth > _MOST_PARTS:
            return schema
        parts = [self.flat(part, depth + 1) for part in as_list(schema.get("allOf"))]
        for key in ("oneOf", "anyOf"):
            choices = [self.flat(part, depth + 1) for part in as_list(schema.get(key))]
            choices = [choice for choice in choices if choice.get("type") != "null"]
            if len({_kind(choice) for choice in choices}) == 1:
                parts += choices
        merged: JsonObject = {}
        properties: JsonObject = {}
        for part in (*parts, schema):
            merged.update(part)
            properties.update(as_object(part.get("properties")))
        if properties:
            merged["properties"] = properties
        kind = _kind(merged)
        return {**merged, "type": kind} if kind is not None else merged

    def fields(self, value: JsonValue) -> Mapping[str, Mapping[str, JsonValue]]:
        """Return the properties of a schema, each as `flat` returns it."""
        return {name: self.flat(part) for name, part in as_object(self.flat(value).get("properties")).items()}

    def record(self, value: JsonValue) -> JsonObject:
        """Return the JSON Schema of a record.

        Every field is nullable, because descriptions are rarely reliable about it.
        """
        self._remaining = _MOST_FIELDS
        return {**self._written(value, _DEEPEST, ()), "type": "object"}

    def leaves(self, value: JsonValue, depth: int = 3) -> Iterator[tuple[tuple[str, ...], Mapping[str, JsonValue]]]:
        """Yield the properties of a body that are neither objects nor lists, with their paths."""
        for name, schema in self.fields(value).items():
            match schema.get("type"):
                case "object" if depth > 1:
                    for path, leaf in self.leaves(schema, depth - 1):
                        yield (name, *path), leaf
                case "array" | "object":
                    pass
                case _:
                    yield (name,), schema

    def _written(self, value: JsonValue, depth: int, above: tuple[str, ...]) -> JsonObject:
        reference = as_string(as_object(value).get("$ref"))
        schema = {} if reference and reference in above else self.flat(value)
        above = (*above, reference)
        match schema.get("type"):
            case "object" if depth > 0 and self._remaining > 0 and (properties := as_object(schema.get("properties"))):
                self._remaining -= len(properties)
                fields = {name: self._written(part, depth - 1, above) for name, part in properties.items()}
                return {"type": ["null", "object"], "properties": fields}
            case "array" if depth > -_DEEPEST and (items := as_object(schema.get("items"))):  # of lists of lists
                return {"type": ["null", "array"], "items": self._written(items, depth - 1, above)}
            case "object" | "array" as kind:
                return {"type": ["null", kind]}
            case str(kind) if kind in SIMPLE_TYPES:
                form = {"format": schema["format"]} if schema.get("format") in _DATES and kind == "string" else {}
                return {"type": ["null", kind], **form}
            case _:
                return {"type": ["null", "object"]} if reference and not schema else {}


def _kind(schema: Mapping[str, JsonValue]) -> str | None:
    """Return the type of a schema; None if it has none, or more than one."""
    if len(kinds := kinds_of(schema)) == 1:
        return kinds[0]
    if "properties" in schema or "additionalProperties" in schema:
        return "object"
    return "array" if "items" in schema else None
