"""The language as a whole: nothing that manifests use is missing from it, and the pages say what the code does."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from cdk.base.values import Json
from cdk.declarative.manifest import Manifest
from tools.manifest_docs.language import PAGES, json_schema, write_pages
from tools.manifest_docs.pages import component_pages

NAMES = json.loads((Path(__file__).parent / "language_names.json").read_text())
PROJECT = Path(__file__).parents[3]
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
    return json_schema()


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


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("check",), {"type": "CheckStrem"}),
        (("streams", 0, "name"), 5),
        (("streams", 0, "retriever"), {"type": "SimpleRetriever"}),
        (("streams", 0, "primary_key"), [1]),
        (("streams", 0, "retriever", "partition_router"), {"type": "NoPagination"}),
    ],
)
def test_what_does_not_load_does_not_fit_the_schema(path: tuple[str | int, ...], value: Json, schema: Json) -> None:
    resolved = json.loads(json.dumps(Manifest(MANIFEST).resolved()))
    node = resolved
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value

    assert not Draft7Validator(schema).is_valid(resolved)


def test_the_pages_on_disk_are_those_that_are_rendered() -> None:
    """`python -m tools.manifest_docs.language --write` renders them."""
    pages = component_pages()
    on_disk = {page.name: page.read_text() for page in (PROJECT / PAGES).glob("*.md") if page.name != "language.md"}

    assert sorted(pages) == sorted(on_disk)
    assert [name for name, text in pages.items() if on_disk[name] != text] == []


def test_writing_the_pages_removes_those_of_families_that_are_gone(tmp_path: Path) -> None:
    pages = write_pages(tmp_path)
    gone = tmp_path / "gone.md"
    gone.write_text(pages[0].read_text())
    (tmp_path / "language.md").write_text("# By hand\n")

    assert write_pages(tmp_path) == pages
    assert not gone.exists()
    assert (tmp_path / "language.md").exists()


def _references(value: Json) -> set[str]:
    if isinstance(value, list):
        return {link for part in value for link in _references(part)}
    if not isinstance(value, dict):
        return set()
    found = {link for part in value.values() for link in _references(part)}
    return found | ({value["$ref"]} if isinstance(value.get("$ref"), str) else set())
