"""Draft: a manifest in the making, with all that was guessed for it and all that it leaves out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cdk.base.values import JsonObject, JsonValue, as_object, kinds_of
from cdk.testing.simulator.examples import example_of, inside

BODY = {"body_data", "body_json"}
"""The locations of parameters that are fields of a form or of a JSON body."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a request. location: `query`, `header`, `path`, `cookie`, `body_data` or `body_json`."""

    name: str
    location: str
    required: bool
    schema: Mapping[str, JsonValue]
    text: str

    @property
    def kinds(self) -> set[str]:
        """The JSON types of its values but null; empty where none is described."""
        return {*kinds_of(self.schema)}


@dataclass(frozen=True, slots=True)
class Guess:
    """Something that the API's documentation may say otherwise. check: how to find that out."""

    what: str
    why: str
    check: str


@dataclass(frozen=True, slots=True)
class Example:
    """A response for tests: what a request of a path, `*` for any segment, is answered.

    params, body: parameters and fields of the body that the request has.
    """

    path: str
    json: JsonValue
    params: Mapping[str, JsonValue] = field(default_factory=dict)
    method: str = "GET"
    body: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamDraft:
    """A stream: its component, what was guessed for it, and responses that it can be read from."""

    name: str
    component: JsonObject
    guesses: Sequence[Guess] = ()
    examples: Sequence[Example] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path that is read by no stream."""

    path: str
    reason: str


def stream_component(
    name: str,
    requester: JsonObject,
    path: Sequence[str] = (),
    *,
    schema: JsonValue = None,
    key: JsonValue = None,
    cursor: JsonValue = None,
    paginator: JsonValue = None,
    router: JsonValue = None,
    transformations: JsonValue = None,
) -> JsonObject:
    """A stream of a manifest, without what is None. path: where its records lie. schema: None: it has no fields yet."""
    retriever: JsonObject = {
        "type": "SimpleRetriever",
        "requester": requester,
        "record_selector": record_selector(path),
        "paginator": paginator,
        "partition_router": router,
    }
    return present(
        {
            "type": "DeclarativeStream",
            "name": name,
            "primary_key": key,
            "incremental_sync": cursor,
            "retriever": present(retriever),
            "transformations": transformations,
            "schema_loader": {"type": "InlineSchemaLoader", "schema": schema or {"type": "object", "properties": {}}},
        }
    )


def record_selector(path: Sequence[str]) -> JsonObject:
    """What takes records from a path in a body."""
    return {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": list(path)}}


def parameter_option(name: str, location: str = "query") -> JsonObject:
    """Where a value goes: into a parameter of the query, or a field of the body."""
    part = "request_parameter" if location == "query" else location
    return {"type": "RequestOption", "inject_into": part, "field_name": name}


def present(component: Mapping[str, JsonValue]) -> JsonObject:
    """A component without the fields that are None."""
    return {name: value for name, value in component.items() if value is not None}


def examples_of(
    url_path: str, path: Sequence[str], record: JsonValue, probe: Parameter | None, method: str = "GET"
) -> list[Example]:
    """Responses with a record at a path; behind it the empty page that a parameter, `probe`, asks for, if one does."""
    examples = [Example(url_path, inside(path, [record]), {}, method)]
    if probe is None:
        return examples
    number = probe.schema["default"]
    condition: JsonObject = {probe.name: number if probe.location == "body_json" else str(number)}
    params, body = ({}, condition) if probe.location in BODY else (condition, {})
    return [*examples, Example(url_path, inside(path, []), params, method, body)]


def known_parameter(name: str, value: JsonValue, location: str = "query") -> Parameter:
    """A parameter whose value is known: as good as a documented one. Strings of the query may be numbers."""
    if location != "body_json" and isinstance(value, str) and value.isdecimal():
        value = int(value)
    known: JsonObject = {"type": "integer", "default": value} if type(value) is int else {"type": "string"}
    schema: JsonObject = {} if value is None else known
    return Parameter(name, location, required=False, schema=schema, text="")


def known_parameters(values: Mapping[str, JsonValue], location: str) -> dict[str, Parameter]:
    """The parameters in a part of a request that may ask for a page: strings, integers and null."""
    scalar = {name: value for name, value in values.items() if value is None or type(value) in {str, int}}
    return {name: known_parameter(name, value, location) for name, value in scalar.items()}


class ConfigFields:
    """The config of a draft: a property once, whichever streams use it."""

    def __init__(self) -> None:
        self.properties: JsonObject = {}
        self.required: list[str] = []
        self.example: JsonObject = {}
        self.values: JsonObject = {}
        """Those that are known, secrets too: for requests that are sent while drafting, and written nowhere."""

    def add(
        self, name: str, schema: Mapping[str, JsonValue], example: JsonValue = None, value: JsonValue = None
    ) -> str:
        """Have a property, required where it has no default; the expression of its value.

        Of the same name it is the same property, but where one is a secret or a timestamp and the other is not.
        value: None: it is not known.
        """
        while name in self.properties and _kind(self.properties[name]) != _kind(schema):
            name = f"{name}_parameter"
        if name not in self.properties:
            self.properties[name] = dict(schema)
            if "default" not in schema:
                self.required.append(name)
                title = f"the {schema.get('title') or 'value'}"
                self.example[name] = example_of(schema, title) if example is None else example
        known = schema.get("default") if value is None else value
        if known is not None:
            self.values.setdefault(name, known)
        return expression(f"config['{name}']")

    def include(self, other: "ConfigFields") -> None:
        """Have the properties of another one, too; those of the same name are the same."""
        self.required += [name for name in other.required if name not in self.properties]
        self.properties = {**other.properties, **self.properties}
        self.example = {**other.example, **self.example}
        self.values = {**other.values, **self.values}


@dataclass(frozen=True, slots=True)
class Draft:
    """What a manifest is written from. requester: what the requests of all streams share.

    adds: a draft that meets an earlier one adds its streams to it; otherwise it takes its place.
    """

    title: str
    requester: JsonObject
    streams: Sequence[StreamDraft]
    config: ConfigFields
    guesses: Sequence[Guess] = ()
    left_out: Sequence[LeftOut] = ()
    examples: Sequence[Example] = ()
    adds: bool = False


def expression(inner: str) -> str:
    """What a manifest writes for the value of an expression."""
    return f"{{{{ {inner} }}}}"


def quoted(name: str) -> str:
    """A string inside of an expression."""
    return "'" + name.replace("\\", r"\\").replace("'", r"\'") + "'"


def _kind(schema: JsonValue) -> tuple[JsonValue, ...]:
    return tuple(as_object(schema).get(name) for name in ("airbyte_secret", "format", "pattern"))
