"""Components with one change anywhere: validation and the schema for editors agree, and every problem has a place."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from cdk.authoring.manifest_schema import resolved_schema
from cdk.base.errors import ManifestError
from cdk.base.values import Json, Keys, Location, as_object
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.component import Component
from cdk.declarative.syntax.json_edit import part_at
from cdk.declarative.syntax.parameters import propagate
from cdk.declarative.syntax.validation import validate
from tests.declarative.test_components import OURS, sample

VALUES: tuple[Json, ...] = (
    *(None, True, False, 0, -1, 7, 1.5, "", "x", "7", "true", "{{ config.x }}"),
    *([], ["x"], [["x"]], [7], {}, {"x": "x"}, {"type": "x"}, {"class_name": "x.Y"}),
    *(sample(Component.registry[name], full=False) for name in ("JsonDecoder", "RequestOption", "DpathExtractor")),
)

SHAPES = re.compile("found (?!the names)|unknown type|this ")
"""How a problem begins that is about a shape, and not about fields that do not fit each other."""


@st.composite
def changed(draw: st.DrawFn) -> tuple[str, Json]:
    """The name of a component, and the component with one change."""
    name = draw(st.sampled_from(OURS))
    value = deepcopy(sample(Component.registry[name], full=draw(st.booleans())))
    keys = draw(st.sampled_from([*places(value, ())]))
    holder: Json = part_at(value, keys[:-1])
    match draw(st.sampled_from(("replace", "remove", "rename"))):
        case "replace":
            holder[keys[-1]] = deepcopy(draw(st.sampled_from(VALUES)))
        case "rename" if isinstance(keys[-1], str):
            holder[f"{keys[-1]}s"] = holder.pop(keys[-1])
        case _:
            del holder[keys[-1]]
    return name, value


def places(value: Json, keys: Keys) -> Iterator[Keys]:
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*keys, key)
        yield from places(part, (*keys, key))


@cache
def accepts(kind: str) -> Draft7Validator:
    return Draft7Validator({**resolved_schema(), "allOf": [{"$ref": f"#/definitions/{kind}"}]})


@settings(max_examples=150)
@given(changed())
def test_a_changed_component_is_accepted_or_each_problem_has_a_place(written: tuple[str, Json]) -> None:
    name, value = written

    component, problems = validate(Component.registry[name], value)

    assert (component is None) == any(problem.certain for problem in problems)
    assert component is None or type(component) is Component.registry[name]
    for problem in problems:
        assert problem.text
        part_at(value, problem.keys)


@settings(max_examples=150)
@given(changed())
def test_what_the_schema_for_editors_accepts_has_the_right_shape(written: tuple[str, Json]) -> None:
    name, value = written
    kind = Component.registry[name]

    _, problems = validate(kind, value)

    if any(problem.certain and SHAPES.match(problem.text) for problem in problems):
        assert not accepts(kind.__name__).is_valid(value)


MANIFEST: dict[str, Json] = {
    "version": "6.0.0",
    "check": {"type": "CheckStream", "stream_names": ["a"]},
    "definitions": {
        "auth": {"type": "BearerAuthenticator", "api_token": "{{ config['t'] }}"},
        "requester": {
            "type": "HttpRequester",
            "url_base": "https://a.test",
            "authenticator": {"$ref": "#/definitions/auth"},
            "request_parameters": {"a": "{{ parameters.path }}"},
        },
        "retriever": {
            "type": "SimpleRetriever",
            "requester": {"$ref": "#/definitions/requester"},
            "record_selector": {"type": "RecordSelector", "extractor": {"type": "DpathExtractor", "field_path": []}},
        },
        "base": {"type": "DeclarativeStream", "primary_key": "id", "retriever": {"$ref": "#/definitions/retriever"}},
        "a": {"$ref": "#/definitions/base", "$parameters": {"name": "a", "path": "/a"}},
        "b": {
            "$ref": "#/definitions/base",
            "name": "b",
            "retriever": {
                "$ref": "#/definitions/retriever",
                "requester": {"$ref": "#/definitions/requester", "$parameters": {"path": "/b", "http_method": "POST"}},
            },
        },
        "fields": [{"type": "RemoveFields", "field_pointers": [["q"]]}],
        "names": {"x": "a", "y": ["b"], "n": 5},
    },
    "streams": [
        "#/definitions/a",
        {"$ref": "#/definitions/b"},
        {"$ref": "#/definitions/a", "$parameters": {"name": "c"}},
    ],
}
LINKS: tuple[Json, ...] = (
    *("#/definitions/a", "#/definitions/requester", "#/definitions/nope", "#/definitions", "#/", "#", "", "x"),
    *("#/definitions/names/x", "#/definitions/names/y/0", "#/definitions/names/y/9", "#/definitions/names/n"),
    *(
        "#/definitions/retriever/requester/authenticator",
        "#/definitions/a/retriever",
        "#/definitions/fields",
        "#/streams/0",
    ),
    *("#/definitions/a/$parameters/name", "#/definitions/a/$parameters", "definitions/a", None, 5, [], {}),
)
PARAMETERS: tuple[Json, ...] = (
    *(None, {}, [], "x", 5, {"name": "z"}, {"type": "NoAuth"}, {"primary_key": None}, {"name": ["z"]}, {"path": ""}),
    *({"authenticator": {"type": "NoAuth"}}, {"authenticator": "#/definitions/auth"}, {"$ref": "#/definitions/names"}),
    *({"$parameters": {"name": "q"}}, {"name": "#/definitions/names/x"}, {"a": {"b": {"type": "NoAuth"}}}),
)


@st.composite
def linked(draw: st.DrawFn) -> dict[str, Json]:
    """A manifest with one or two changes of its references and parameters."""
    manifest = deepcopy(MANIFEST)
    for _ in range(draw(st.integers(1, 2))):
        objects = [part for keys in [(), *places(manifest, ())] if isinstance(part := part_at(manifest, keys), dict)]
        holder = draw(st.sampled_from(objects))
        match draw(st.sampled_from(("$ref", "$parameters", "string"))):
            case "$ref":
                holder["$ref"] = deepcopy(draw(st.sampled_from(LINKS)))
            case "$parameters":
                holder["$parameters"] = deepcopy(draw(st.sampled_from(PARAMETERS)))
            case _:
                holder[draw(st.sampled_from([*holder] or ["x"]))] = deepcopy(draw(st.sampled_from(LINKS)))
    return manifest


@settings(max_examples=200)
@given(linked())
def test_changed_references_and_parameters_are_resolved_or_the_place_is_named(manifest: dict[str, Json]) -> None:
    before = deepcopy(manifest)
    try:
        resolved = Manifest(manifest).resolved()
    except ManifestError as error:
        for each in error.each:
            assert isinstance(each.path, Location)
            part_at(manifest, each.path.keys)
        return
    finally:
        assert manifest == before

    for keys in places(resolved["streams"], ()):
        assert keys[-1] != "$ref" or not isinstance(part_at(resolved["streams"], keys), str)
    with suppress(ManifestError):
        Manifest(manifest).root()


@given(st.lists(st.sampled_from(PARAMETERS[7:]), max_size=2), st.booleans())
def test_a_map_without_a_type_passes_parameters_on_and_has_none(given_: Sequence[Json], nested: bool) -> None:  # noqa: FBT001
    parameters = {name: value for each in given_ for name, value in as_object(each).items() if "$" not in name}
    query: dict[str, Json] = {"a": "1", "$parameters": parameters}
    if nested:
        query["b"] = {"type": "QueryProperties", "property_list": ["x"]}

    made = propagate({"type": "HttpRequester", "url": "https://a.test", "request_parameters": query})

    sent = as_object(made["request_parameters"])
    assert sent.keys() == query.keys() - {"$parameters"}
    assert not nested or as_object(sent["b"]).get("$parameters", {}) == parameters
