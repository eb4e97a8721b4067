"""Draft: a manifest before it is written, with everything that was guessed for it and everything it leaves out."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from cdk.base.errors import ConfigError
from cdk.base.values import JsonObject, JsonValue, as_object, is_deeper, kinds_of
from cdk.base.wording import listed
from cdk.testing.simulator.examples import example_of, inside

BODY = {"body_data", "body_json"}
"""The locations of parameters that are fields of a form or a JSON body."""

_MOST_LEVELS = 150
"""Of objects and lists in a part of a draft. A manifest that is nested deeper than 200 cannot be read."""


def check_levels(value: JsonValue, where: str) -> None:
    """Raise ConfigError when a value is nested too deeply for a manifest."""
    if is_deeper(value, _MOST_LEVELS):
        raise ConfigError(
            f"is nested deeper than {_MOST_LEVELS} levels, more than a manifest may be; flatten it", path=where
        )


class Parameter(Struct, frozen=True):
    """A parameter of a request. location: `query`, `header`, `path`, `cookie`, `body_data` or `body_json`."""

    name: str
    location: str
    required: bool
    schema: Mapping[str, JsonValue]
    text: str

    @property
    def kinds(self) -> set[str]:
        """The JSON types of its values except null; empty if undocumented."""
        return {*kinds_of(self.schema)}


class Guess(Struct, frozen=True):
    """An assumption that the API's documentation may contradict. check: how to verify it."""

    what: str
    why: str
    check: str


class Example(Struct, frozen=True):
    """A response for tests, to a request for a path in which `*` stands for any segment.

    params, body: parameters, and fields of the body, that the request must have.
    """

    path: str
    json: JsonValue
    params: Mapping[str, JsonValue] = field(default_factory=dict)
    method: str = "GET"
    body: Mapping[str, JsonValue] = field(default_factory=dict)


class StreamDraft(Struct, frozen=True):
    """A stream: its component, the guesses for it, and example responses that it can be read from."""

    name: str
    component: JsonObject
    guesses: Sequence[Guess] = ()
    examples: Sequence[Example] = ()


class LeftOut(Struct, frozen=True):
    """A path of the API that no stream reads, or a setting that is not carried over."""

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
    """Return a stream of a manifest, without fields that are None.

    path: of its records. schema: None for no fields yet.
    """
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
    """Return the record selector that extracts records from a path in a body."""
    return {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": list(path)}}


def parameter_option(name: str, location: str = "query") -> JsonObject:
    """Return the request option that puts a value into a query parameter or a field of the body."""
    part = "request_parameter" if location == "query" else location
    return {"type": "RequestOption", "inject_into": part, "field_name": name}


def present(component: Mapping[str, JsonValue]) -> JsonObject:
    """Return a component without the fields that are None."""
    return {name: value for name, value in component.items() if value is not None}


def examples_of(
    url_path: str, path: Sequence[str], record: JsonValue, probe: Parameter | None, method: str = "GET"
) -> list[Example]:
    """Return responses: one with a record at a path and, if `probe` requests a next page, an empty page for it."""
    examples = [Example(url_path, inside(path, [record]), {}, method)]
    if probe is None:
        return examples
    number = probe.schema["default"]
    condition: JsonObject = {probe.name: number if probe.location == "body_json" else str(number)}
    params, body = ({}, condition) if probe.location in BODY else (condition, {})
    return [*examples, Example(url_path, inside(path, []), params, method, body)]


def known_parameter(name: str, value: JsonValue, location: str = "query") -> Parameter:
    """Return a parameter with a known value, as good as a documented one.

    A decimal string counts as an integer, except in a JSON body, where types are known.
    """
    if location != "body_json" and isinstance(value, str) and value.isdecimal():
        value = int(value)
    known: JsonObject = {"type": "integer", "default": value} if type(value) is int else {"type": "string"}
    schema: JsonObject = {} if value is None else known
    return Parameter(name, location, required=False, schema=schema, text="")


def known_parameters(values: Mapping[str, JsonValue], location: str) -> dict[str, Parameter]:
    """Return the parameters in a part of a request that may select a page: strings, integers and null."""
    scalar = {name: value for name, value in values.items() if value is None or type(value) in {str, int}}
    return {name: known_parameter(name, value, location) for name, value in scalar.items()}


class ConfigFields:
    """The config of a draft: each property once, however many streams use it."""

    def __init__(self) -> None:
        self.properties: JsonObject = {}
        self.required: list[str] = []
        self.example: JsonObject = {}
        self.values: JsonObject = {}
        """The known values, including secrets: for requests that are sent while drafting. They are never written."""

    def add(
        self, name: str, schema: Mapping[str, JsonValue], example: JsonValue = None, value: JsonValue = None
    ) -> str:
        """Add a property, required if it has no default; return the expression of its value.

        A property of the same name is reused, unless only one of the two is a secret or a timestamp.
        value: None if unknown.
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
        """Add the properties of another config; a property of the same name is the same."""
        self.required += [name for name in other.required if name not in self.properties]
        self.properties = {**other.properties, **self.properties}
        self.example = {**other.example, **self.example}
        self.values = {**other.values, **self.values}


class Draft(Struct, frozen=True):
    """The content of a manifest to write. requester: the part of a requester that all streams share.

    adds: whether its streams are added to those of an earlier draft; otherwise it replaces the earlier draft.
    """

    title: str
    requester: JsonObject
    streams: Sequence[StreamDraft]
    config: ConfigFields
    guesses: Sequence[Guess] = ()
    left_out: Sequence[LeftOut] = ()
    examples: Sequence[Example] = ()
    adds: bool = False


def report(draft: Draft, most: int | None = None) -> Iterator[str]:
    """Yield lines of Markdown: what was guessed and left out, similar entries grouped.

    most: the most names and paths of a list to show; None for all.
    """
    yield "## What was guessed"
    yield ""
    grouped: dict[tuple[str, str], tuple[Guess, list[str]]] = {}
    for stream in draft.streams:
        for guess in stream.guesses:
            grouped.setdefault((guess.what, guess.why), (guess, []))[1].append(f"`{stream.name}`")
    for guess in draft.guesses:
        yield _line(guess)
    for guess, streams in grouped.values():
        yield f"{_line(guess)} ({listed(streams, most)})"
    if draft.left_out:
        yield ""
        yield "## What was left out"
        yield ""
        reasons: dict[str, list[str]] = {}
        for each in draft.left_out:
            reasons.setdefault(each.reason, []).append(f"`{each.path}`")
        for reason, paths in reasons.items():
            yield f"- {reason}: {listed(paths, most)}"


def _line(guess: Guess) -> str:
    return f"- {guess.what}. Why: {guess.why}. Check: {guess.check}."


def expression(inner: str) -> str:
    """Return the text of an expression in a manifest."""
    return f"{{{{ {inner} }}}}"


def quoted(name: str) -> str:
    """Return a string literal inside an expression."""
    return "'" + name.replace("\\", r"\\").replace("'", r"\'") + "'"


def _kind(schema: JsonValue) -> tuple[JsonValue, ...]:
    return tuple(as_object(schema).get(name) for name in ("airbyte_secret", "format", "pattern"))
