"""The JSON Schema of manifests: with references resolved, and as people write them."""

from collections.abc import Iterable

from msgspec import Struct

from cdk.base.values import JSON_TYPES, Json, JsonSchema
from cdk.declarative.components import register
from cdk.declarative.model.component import Component
from cdk.declarative.model.component_docs import component_docs
from cdk.declarative.model.field_shapes import (
    AnyOf,
    Anything,
    Changed,
    Choice,
    Either,
    FieldShape,
    ListOf,
    MapOf,
    Nothing,
    Part,
    Scalar,
    Shape,
    fields_of,
    flat,
    kind_of,
    parts_of,
)
from cdk.declarative.syntax.legacy_syntax import FORMER_TYPES

_ROOT = "DeclarativeSource"
_PARAMETERS = {"type": "object", "description": "Values that this component passes to all components below it."}

_FORMER = "FormerComponent"
_REFERRING = {
    "$ref": {"type": "string", "description": "A part of this manifest, such as `#/definitions/requester`."},
    "$options": {"description": "The name of `$parameters` in old manifests.", "doNotSuggest": True},
}
_LINK = {"type": "string", "pattern": r"^(#/|\*ref\()", "title": "A reference"}
_REFERENCE = {"type": "object", "required": ["$ref"], "properties": {"$ref": {"type": "string"}}}

# Names in the language for values that are not components, and where they are used.
_VALUES = {
    "CombineMode": ("CombinedExtractor", "mode"),
    "PrimaryKey": ("DeclarativeStream", "primary_key"),
    "SchemaNormalization": ("RecordSelector", "schema_normalization"),
    "Schemas": ("DeclarativeSource", "schemas"),
    "ValueType": ("AddedFieldDefinition", "value_type"),
}
# Objects that are passed on unchanged, but still have a shape.
_OBJECTS = {("Spec", "advanced_auth"): "AuthFlow"}
_MODELS = {"GraphQlQuery": "RequestBodyGraphQlQuery"}


def resolved_schema() -> dict[str, Json]:
    """Return the JSON Schema (draft 7) of a manifest whose references are resolved.

    `definitions` has every component by its type, and every family with its members. Unknown fields are allowed, as
    when a manifest is loaded.
    """
    register()
    definitions: dict[str, JsonSchema] = {}
    for name, model in Component.registry.items():
        definitions[_defined(name)] = _model_schema(name, model)
    for plain in _plain_models(Component.registry.values()):
        definitions[_name(plain)] = _model_schema(_name(plain), plain)
    for family in _families():
        definitions[family.__name__] = {
            "title": kind_of(family),
            "description": component_docs(family).text,
            "type": "object",
            "required": ["type"],
            "anyOf": [_ref(_defined(name)) for name in sorted(family.members())],
        }
    for name, (component, field) in _VALUES.items():
        if component in Component.registry:
            definitions[name] = _value_schema(name, Component.registry[component], field)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A manifest",
        "allOf": [_ref(_ROOT)],
        "definitions": dict(sorted(definitions.items())),
    }


def manifest_schema() -> dict[str, Json]:
    """Return the JSON Schema (draft 7) of a manifest as it is written, for editors.

    No field is required, because a `$ref`, a reference in a string, enclosing `$parameters` or an old form may supply
    it. Fields that are written must be valid in their place.
    """
    resolved = resolved_schema()
    definitions = {name: _written(schema) for name, schema in resolved["definitions"].items()}
    for old, today in FORMER_TYPES.items():
        if today:
            definitions[_defined(today)]["properties"]["type"]["enum"].append(old)
    alone = "|".join(sorted(old for old, today in FORMER_TYPES.items() if today is None))
    definitions[_FORMER] = {
        "title": "A component of old manifests",
        "type": "object",
        "required": ["type"],
        # No `enum`, because editors would offer each of its values.
        "properties": {"type": {"pattern": f"^({alone})$"}},
    }
    root = {**definitions[_ROOT], "required": ["version"]}
    return {**resolved, "definitions": {**definitions, _ROOT: root}}


def _written(schema: Json) -> Json:
    """Return a schema that also accepts references, in place of the value and of anything in it."""
    match schema:
        case {"type": "object", "properties": dict(properties), **rest}:
            parts = {name: part if name == "type" else _written(part) for name, part in properties.items()}
            rest.pop("required", None)
            written = {"type": "object", **rest, "properties": {**_REFERRING, **parts}}
        case {"type": "object", "required": _, "anyOf": list(members), **rest}:
            # A component without a `type` is the one implied by its place, which the schema lists beside the family
            # there.
            member = {"required": ["type"], "anyOf": [*members, _ref(_FORMER)]}
            written = {**rest, "anyOf": [member, _REFERENCE]}
        case {"type": "object", "additionalProperties": dict(inner), **rest}:
            alternative = {"type": "object", "properties": _REFERRING, "additionalProperties": _written(inner), **rest}
            written = {"anyOf": [alternative, _REFERENCE]}
        case {"type": "array", "items": inner, **rest}:
            written = {"anyOf": [{"type": "array", "items": _written(inner), **rest}, _LINK, _REFERENCE]}
        case {"type": "integer" | "number" | "boolean"} | {"enum": _}:
            written = {"anyOf": [schema, _LINK, _REFERENCE]}
        case {"anyOf": list(options), **rest} | {"allOf": list(options), **rest}:
            written = {**rest, "anyOf": [*map(_written, options), _LINK]}
        case {"$ref": str(name)}:
            # A custom component may have any field; without a type, its class name identifies it.
            custom = name.startswith("#/definitions/Custom")
            own = {"anyOf": [{"required": ["class_name"]}, {"required": ["type"]}], "allOf": [schema]}
            written = {"anyOf": [own if custom else schema, _LINK]}
        case _:
            written = schema
    return written


def _defined(name: str) -> str:
    """Return the name of a type's definition: the class name, since two types have names too common to stand alone."""
    return Component.registry[name].__name__


def _model_schema(name: str, model: type[Struct]) -> dict[str, Json]:
    fields, docs = fields_of(model), component_docs(model)
    properties: dict[str, Json] = {}
    if issubclass(model, Component):
        # No `"type": "string"` beside the enum, because language servers offer the names before anything is typed.
        properties = {"type": {"enum": [name]}}
    for key, field in fields.items():
        if key == "$parameters":
            properties[key] = _PARAMETERS
        elif key != "type":
            properties[key] = _field_schema(name, field, docs.fields[key])
    required = [key for key, field in fields.items() if field.required]
    return {
        "title": name,
        "description": docs.text,
        "type": "object",
        **({"required": required} if required else {}),
        "properties": properties,
        "additionalProperties": True,
    }


def _field_schema(component: str, field: FieldShape, description: str) -> dict[str, Json]:
    named = next((name for name, field_of in _VALUES.items() if field_of == (component, field.key)), None)
    named = named or _OBJECTS.get((component, field.key))
    if named is None:
        schema = _schema(field.shape)
    else:
        # A component is allowed there, too: the named definition covers only the plain values.
        parts = [part for part in flat(field.shape) if isinstance(part, Part | AnyOf)]
        schema = {"anyOf": [_ref(named), *map(_schema, parts)]}
        if not field.required:
            schema["anyOf"].append({"type": "null"})
    if "$ref" in schema:
        schema = {"allOf": [schema]}  # draft 7 ignores keywords beside a `$ref`
    described = {"description": description} if description else {}
    default = {} if field.required or field.default is None else {"default": field.default}
    return {**described, **schema, **default}


def _value_schema(name: str, model: type[Component], key: str) -> dict[str, Json]:
    plain = tuple(part for part in flat(fields_of(model)[key].shape) if not isinstance(part, Part | AnyOf | Nothing))
    schema = _schema(plain[0] if len(plain) == 1 else Either(plain))
    return {"title": name, "description": component_docs(model).fields[key], **schema}


def _schema(shape: Shape) -> dict[str, Json]:  # noqa: C901, PLR0911 - one return for each shape
    match shape:
        case Anything():
            return {}
        case Nothing():
            return {"type": "null"}
        case Scalar(type=kind, bounds=bounds):
            return {"type": JSON_TYPES[kind], **dict(bounds)}
        case Choice(values=values):
            return {"enum": list(values)}
        case ListOf(item=item, alone=alone, least=least):
            alternative = {"type": "array", "items": _schema(item), **({"minItems": least} if least else {})}
            return {"anyOf": [alternative, _schema(item)]} if alone else alternative
        case MapOf(item=item):
            return {"type": "object", "additionalProperties": _schema(item) or True}
        case Part(model=model):
            return _ref(_name(model))
        case AnyOf(kind=kind):
            types = (kind.implied.type, kind.implied.custom) if kind.implied else ()
            implied = [name for name in types if name and name in Component.registry]
            # Without a `type`, only the implied component is allowed.
            refs = [_ref(kind.__name__), *(_ref(_defined(name)) for name in implied)]
            return {"anyOf": refs} if len(refs) > 1 else refs[0]
        case Changed(item=item):
            return _schema(item)
        case Either(options=options):
            return {"anyOf": [_schema(option) for option in options]}


def _plain_models(models: Iterable[type[Struct]]) -> list[type[Struct]]:
    """Return the models used by components that are not components themselves."""
    plain_models: dict[str, type[Struct]] = {}
    waiting = list(models)
    while waiting:
        for model in parts_of(waiting.pop()):
            if not issubclass(model, Component) and model.__name__ not in plain_models:
                plain_models[model.__name__] = model
                waiting.append(model)
    return list(plain_models.values())


def _families() -> list[type[Component]]:
    known = {base for kind in Component.registry.values() for base in kind.__mro__[1:]}
    return [base for base in known if issubclass(base, Component) and base.__name__.startswith("Any")]


def _name(model: type[Struct]) -> str:
    return _MODELS.get(model.__name__, kind_of(model))


def _ref(name: str) -> dict[str, Json]:
    return {"$ref": f"#/definitions/{name}"}
