"""Schemas in files, and what they refer to in others."""

import json
from pathlib import Path
from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.declarative.model.context import Runtime
from cdk.declarative.reading.schema_file import read_schema
from cdk.testing import MockApi, read
from tests.declarative.manifests import source

STREET: Json = {"type": ["null", "string"], "maxLength": 80}


def written(folder: Path, **files: Json) -> Path:
    """The folder `schemas` with the schema `users`, and the shared ones."""
    shared = folder / "schemas" / "shared"
    shared.mkdir(parents=True)
    for name, schema in files.items():
        home = folder / "schemas" if name == "users" else shared
        (home / f"{name}.json").write_text(json.dumps(schema))
    return folder / "schemas" / "users.json"


def properties(schema: Any) -> Any:
    return schema["properties"]


def of(**fields: Json) -> dict[str, Json]:
    return {"type": "object", "properties": fields}


def test_a_shared_schema_stands_where_it_is_referred_to(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        users={**of(home={"$ref": "address.json"}, all={"type": "array", "items": {"$ref": "address.json"}}), "x": 1},
        address={**of(street={"$ref": "#/definitions/street"}), "definitions": {"street": STREET}},
    )

    address = of(street=STREET)
    assert read_schema(file) == {**of(home=address, all={"type": "array", "items": address}), "x": 1}


def test_a_part_of_a_shared_schema_is_named_after_a_hash(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        users=of(
            street={"$ref": "parts.json#/definitions/street"}, beside={"$ref": "shared/parts.json#/definitions/a~1b"}
        ),
        parts={"definitions": {"street": STREET, "a/b": {"$ref": "#/definitions/street"}}},
    )

    assert properties(read_schema(file)) == {"street": STREET, "beside": STREET}


def test_shared_schemas_refer_to_each_other_and_own_definitions_stay(tmp_path: Path) -> None:
    users = {**of(a={"$ref": "#/definitions/one"}), "definitions": {"one": {"$ref": "outer.json"}}}
    file = written(tmp_path, users=users, outer=of(b={"$ref": "inner.json"}), inner=STREET)

    assert read_schema(file) == {**of(a=of(b=STREET)), "definitions": {"one": of(b=STREET)}}


def test_a_schema_that_holds_itself_keeps_the_reference(tmp_path: Path) -> None:
    node = of(children={"type": "array", "items": {"$ref": "#/definitions/node"}})
    file = written(tmp_path, users={**of(top={"$ref": "#/definitions/node"}), "definitions": {"node": node}})

    found = read_schema(file)

    assert properties(found)["top"] == node
    assert found["definitions"] == {"node": of(children={"type": "array", "items": node})}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"users": of(a={"$ref": "nope.json"})}, "'nope.json' cannot be resolved: there is no file 'nope.json' in"),
        ({"users": of(a={"$ref": "#/definitions/nope"})}, "'#/definitions/nope' cannot be resolved"),
        ({"users": of(a={"$ref": "../../key.json"})}, "'../../key.json' cannot be resolved"),
        ({"users": of(a={"$ref": "https://json.test/a.json"})}, "'https://json.test/a.json' cannot be resolved"),
        ({"users": of(a={"$ref": "b.json"}), "b": of(a={"$ref": "c.json"}), "c": {"$ref": "b.json"}}, "leads back"),
        ({"users": of(a={"$ref": "b.json"}), "b": []}, "found a list, expected a JSON Schema"),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(tmp_path: Path, files: dict[str, Json], expected: str) -> None:
    (tmp_path / "key.json").write_text("{}")

    with pytest.raises(ManifestError, match=expected):
        read_schema(written(tmp_path / "it", **files))


def test_values_are_cast_to_the_types_of_shared_schemas(tmp_path: Path) -> None:
    written(tmp_path, users=of(home={"$ref": "address.json"}), address=of(number={"type": "integer"}))
    api = MockApi()
    api.get("/items").returns(json={"data": [{"home": {"number": "12"}}]})

    made = source(
        api,
        runtime=Runtime(folder=tmp_path),
        stream={"schema_loader": {"type": "JsonFileSchemaLoader", "file_path": "./schemas/users.json"}},
        selector={"schema_normalization": "Default"},
    )

    assert read(made, "items").records == [{"home": {"number": 12}}]
