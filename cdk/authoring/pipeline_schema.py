"""The JSON Schema of pipeline files, for editors: the fields of `Pipeline`, described by its docstrings."""

import re
from collections.abc import Mapping
from inspect import cleandoc

from cdk.base.values import Json
from cdk.sync.settings.pipeline_file import Pipeline

_VARIABLE = {"type": "string", "pattern": r"\$\{", "title": "A variable of the environment"}
_ALIASES = {"Pipeline": ("name", "pipeline_name"), "StreamOptions": ("remove_stale", "remove_stale_metadata")}


def pipeline_schema() -> dict[str, Json]:
    """Return the JSON Schema (draft 2020-12) of a pipeline file; every value may come from the environment."""
    schema = Pipeline.model_json_schema()
    definitions = {name: _model(name, part) for name, part in schema.pop("$defs").items()}
    definitions["SourceOptions"]["oneOf"] = [{"required": ["connector"]}, {"required": ["manifest"]}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_model("Pipeline", schema),
        "title": "A pipeline",
        "$defs": definitions,
    }


def _model(name: str, schema: dict[str, Json]) -> dict[str, Json]:
    """Return the schema of a model, with a description for each field, and with the aliases of fields."""
    text, words = split_docstring(schema.get("description", ""), schema.get("properties", {}))
    fields = {
        field: {
            **_with_variables(_without_odd_default(part)),
            **({"description": words[field]} if field in words else {}),
        }
        for field, part in schema.get("properties", {}).items()
    }
    schema = {**schema, "description": text, "properties": fields}
    if name in _ALIASES:
        field, alias = _ALIASES[name]
        fields[alias] = fields[field]
        if field in schema.get("required", ()):
            schema["required"] = [each for each in schema["required"] if each != field]
            schema["oneOf"] = [{"required": [field]}, {"required": [alias]}]
    return schema


def _with_variables(schema: Json) -> Json:
    """Return a field's schema that also accepts a variable of the environment where it accepts no strings."""
    match schema:
        case {"type": "integer" | "number" | "boolean"} | {"enum": _}:
            annotations = {name: value for name, value in schema.items() if name in {"default", "title"}}
            constraints = {name: value for name, value in schema.items() if name not in annotations}
            return {"anyOf": [constraints, _VARIABLE], **annotations}
        case {"anyOf": list(options), **rest}:
            return {**rest, "anyOf": [*map(_with_variables, options)]}
        case _:
            return schema


def _without_odd_default(schema: dict[str, Json]) -> dict[str, Json]:
    """Return a field's schema without a default that no file would contain: null, or a duration in ISO 8601."""
    default = schema.get("default")
    odd = default is None or (isinstance(default, str) and default.startswith("P"))
    return {name: value for name, value in schema.items() if not (name == "default" and odd)}


def split_docstring(docstring: str, fields: Mapping[str, Json]) -> tuple[str, dict[str, str]]:
    """Split a docstring into the text on the whole and that of each field: `name: words`, `one, other: words`."""
    if not fields:
        return docstring, {}
    names = "|".join(map(re.escape, fields))
    text, *rest = re.split(rf"(?:^|(?<=\s))((?:{names})(?:, (?:{names}))*): ", " ".join(cleandoc(docstring).split()))
    words = zip(rest[::2], rest[1::2], strict=True)
    return text.strip(), {name: sentence.strip() for together, sentence in words for name in together.split(", ")}
