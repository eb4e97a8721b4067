"""The JSON Schemas of manifests: nothing that manifests use is missing, and good manifests validate."""

import ast
import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from jsonschema import Draft7Validator

from cdk.authoring.manifest_schema import manifest_schema, resolved_schema
from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.declarative.components import register
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.component import Component
from cdk.declarative.model.component_docs import component_docs

register()
NAMES = json.loads((Path(__file__).parent / "language_names.json").read_text())
PROJECT = Path(__file__).parents[2]
MANIFEST = {
    "version": "6.0.0",
    "check": {"stream_names": ["users"]},
    "definitions": {"selector": {"extractor": {"field_path": ["data"]}}},
    "streams": [
        {
            "name": "users",
            "primary_key": "id",
            "retriever": {
                "requester": {"url": "https://api.example.com/users"},
                "record_selector": {"$ref": "#/definitions/selector"},
                "partition_router": {"type": "ListPartitionRouter", "cursor_field": "a", "values": ["x"]},
            },
        }
    ],
}


@pytest.fixture(scope="module")
def schema() -> Json:
    return resolved_schema()


@pytest.mark.parametrize("name", NAMES)
def test_every_type_of_the_language_is_there_with_its_fields(name: str, schema: Json) -> None:
    assert name in schema["definitions"]
    made = schema["definitions"][name]

    assert sorted(set(NAMES[name]["fields"]) - set(made.get("properties", ()))) == []
    assert sorted(NAMES[name]["required"]) == sorted(made.get("required", ()))


def test_the_schema_is_a_schema_whose_references_lead_somewhere(schema: Json) -> None:
    Draft7Validator.check_schema(schema)

    assert sorted(_references(schema) - {f"#/definitions/{name}" for name in schema["definitions"]}) == []


def test_everything_in_the_schema_is_described(schema: Json) -> None:
    silent = [
        f"{name}.{key}"
        for name, made in schema["definitions"].items()
        for key, field in made.get("properties", {}).items()
        if key != "type" and not field.get("description")
    ]

    assert silent == []
    assert [name for name, made in schema["definitions"].items() if not made["description"]] == []


def test_a_manifest_that_loads_fits_the_schema(schema: Json) -> None:
    manifest = Manifest(MANIFEST)
    manifest.root()

    assert [error.message for error in Draft7Validator(schema).iter_errors(manifest.resolved())] == []


WRONG: list[tuple[tuple[str | int, ...], Json]] = [
    (("check",), {"type": "CheckStrem"}),
    (("streams", 0, "name"), 5),
    (("streams", 0, "primary_key"), [1]),
    (("streams", 0, "retriever", "partition_router"), {"type": "NoPagination"}),
]


def changed(manifest: Json, path: tuple[str | int, ...], value: Json) -> Json:
    copy = node = deepcopy(manifest)
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return copy


@pytest.mark.parametrize(("path", "value"), [*WRONG, (("streams", 0, "retriever"), {"type": "SimpleRetriever"})])
def test_what_does_not_load_does_not_fit_the_schema(path: tuple[str | int, ...], value: Json, schema: Json) -> None:
    resolved = json.loads(json.dumps(Manifest(MANIFEST).resolved()))

    assert not Draft7Validator(schema).is_valid(changed(resolved, path, value))


@pytest.fixture(scope="module")
def language() -> Json:
    return manifest_schema()


@pytest.fixture(scope="module")
def written(language: Json) -> Draft7Validator:
    """The schema of manifests as they are written."""
    Draft7Validator.check_schema(language)
    return Draft7Validator(language)


FIRST_PAGE = {"type": "PageIncrement", "start_from_page": "one"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *WRONG,
        (("streams",), {}),
        (("streams", 0, "retriever"), "simple"),
        (("streams", 0, "retriever", "paginator"), {"type": "DefaultPaginator", "pagination_strategy": FIRST_PAGE}),
    ],
)
def test_a_written_manifest_with_a_mistake_is_refused(
    path: tuple[str | int, ...], value: Json, written: Draft7Validator
) -> None:
    assert written.is_valid(MANIFEST)
    assert not written.is_valid(changed(MANIFEST, path, value))


FORMS = """
version: 0.1.0
definitions:
  schema_loader: {type: JsonSchema, file_path: "./{{ options['name'] }}.json"}
  requester: {type: HttpRequester, url_base: "https://api.example.com", http_method: GET}
  pages:
    type: LimitPaginator
    page_size: 10
    limit_option: {inject_into: request_parameter, field_name: limit}
    page_token_option: {inject_into: path}
    pagination_strategy: {type: CursorPagination, cursor_value: "{{ response.next }}"}
  parts: {size: 5, more: true, values: [a, b]}
  retriever:
    $ref: "*ref(definitions.base)"
    requester: {$ref: "*ref(definitions.requester)"}
  base:
    record_selector: {extractor: {type: DpathExtractor, field_pointer: [data]}}
    paginator: "*ref(definitions.pages)"
    stream_slicer: {type: ListStreamSlicer, slice_values: "#/definitions/parts/values", cursor_field: x}
streams:
  - type: DeclarativeStream
    $options: {name: users, primary_key: id, path: /users}
    schema_loader: "*ref(definitions.schema_loader)"
    retriever: {$ref: "*ref(definitions.retriever)"}
  - $ref: "#/streams/0"
    $parameters: {name: others, path: /others}
check: {type: CheckStream, stream_names: [users]}
"""


def test_references_parameters_and_old_forms_validate(written: Draft7Validator) -> None:
    manifest = yaml.safe_load(FORMS)
    Manifest(manifest).root()

    assert [error.message for error in written.iter_errors(manifest)] == []


def blocks() -> Iterator[tuple[str, Json]]:
    """The manifests in YAML that documentation and tests have, by their file."""
    for file in (*sorted((PROJECT / "docs").rglob("*.md")), *sorted((PROJECT / "tests").rglob("*.py"))):
        text = file.read_text()
        strings = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if file.suffix == ".md" else _strings(text)
        for block in strings:
            if "streams:" in block and "check:" in block:
                try:
                    yield str(file.relative_to(PROJECT)), yaml.safe_load(dedent(block))
                except yaml.YAMLError:
                    continue


def _strings(code: str) -> list[str]:
    nodes = ast.walk(ast.parse(code)) if "streams:" in code else ()
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def test_every_manifest_of_the_project_that_loads_validates(written: Draft7Validator) -> None:
    loaded = refused = 0
    for file, value in blocks():
        try:
            Manifest(value).root()
        except ManifestError:
            refused += 1
            continue
        loaded += 1
        assert [error.message for error in written.iter_errors(value)] == [], file

    assert loaded > refused
    assert loaded >= 10


@pytest.mark.parametrize("name", [name for name in NAMES if name in Component.registry])
def test_the_example_of_each_component_validates(name: str, language: Json) -> None:
    example = component_docs(Component.registry[name]).example
    part = {**language, "allOf": [{"$ref": f"#/definitions/{name}"}]}

    assert [error.message for error in Draft7Validator(part).iter_errors(yaml.safe_load(example))] == []


def _references(value: Json) -> set[str]:
    if isinstance(value, list):
        return {link for part in value for link in _references(part)}
    if not isinstance(value, dict):
        return set()
    found = {link for part in value.values() for link in _references(part)}
    return found | ({value["$ref"]} if isinstance(value.get("$ref"), str) else set())
