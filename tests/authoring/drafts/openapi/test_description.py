"""A description is read from a folder or one URL, and from nowhere else."""

import json
from pathlib import Path

import pytest

from cdk.authoring.drafts.manifest_text import manifest_text
from cdk.authoring.drafts.openapi.description import Description, read_description
from cdk.authoring.drafts.openapi.from_description import draft_of
from cdk.base.errors import CdkError, ConfigError
from cdk.base.values import Json
from cdk.testing import MockApi

LIST: Json = {
    "type": "array",
    "items": {"allOf": [{"properties": {"id": {"type": "string"}}}, {"$ref": "other.json#/a"}]},
}
DOCUMENT: Json = {
    "openapi": "3.0.0",
    "servers": [{"url": "../v1"}],
    "paths": {"/a": {"get": {"responses": {"200": {"content": {"application/json": {"schema": LIST}}}}}}},
}


def test_only_the_url_is_fetched_and_no_secret_of_it_is_written() -> None:
    api = MockApi()
    api.get("/docs/openapi.json", {"token": "a-secret"}).returns(json=DOCUMENT)

    draft = draft_of(read_description("https://me:a-secret@api.example.com/docs/openapi.json?token=a-secret", api))

    assert draft.requester["url_base"] == "https://api.example.com/v1"
    assert [guess.why for guess in draft.guesses] == [
        "only files of the description's folder are read, and it refers to other.json"
    ]
    assert (len(api.requests), "a-secret" in manifest_text(draft)) == (1, False)


def test_the_password_of_a_server_that_is_described_is_not_written() -> None:
    servers: Json = [{"url": "https://me:a-secret@api.example.com/v1"}]
    text = manifest_text(draft_of(Description({**DOCUMENT, "servers": servers})))

    assert ("https://api.example.com/v1" in text, "a-secret" in text) == (True, False)


def test_a_url_without_a_description_is_an_error_that_shows_no_secret() -> None:
    api = MockApi()
    api.get("/openapi.json").returns(status=404, json={})

    with pytest.raises(CdkError) as raised:
        read_description("https://api.example.com/openapi.json?token=a-secret", api)

    assert ("404" in str(raised.value), "a-secret" in str(raised.value)) == (True, False)


def folder(at: Path, **more: Json) -> Path:
    """A description whose parts are in files of their own, each of which refers to others."""
    path = at / "docs" / "openapi.yaml"
    files: Json = {
        "openapi.yaml": {"openapi": "3.0.0", "paths": {"/pets": {"$ref": "./paths/pets.yaml"}}, **more},
        "paths/pets.yaml": {"get": {"responses": {"200": {"$ref": "../parts.json#/answers/pets"}}}},
        "parts.json": {
            "answers": {"pets": {"content": {"application/json": {"schema": {"$ref": "#/lists/pets"}}}}},
            "lists": {"pets": {"type": "array", "items": {"$ref": "schemas/my%20pet.json"}}},
        },
        "schemas/my pet.json": {
            "properties": {
                "id": {"type": "string"},
                "owner": {"$ref": "../openapi.yaml#/components/schemas/Owner"},
                "kind": {"$ref": "https://me:a-secret@schemas.example.com/kind.json#/kind"},
                "other": {"$ref": "../../secret.json"},
                "gone": {"$ref": "../parts.json#/lists/gone"},
            }
        },
        "../secret.json": {"type": "integer"},
    }
    for name, document in files.items():
        (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
        (path.parent / name).write_text(json.dumps(document))
    return path


def test_files_of_the_folder_are_followed_and_others_are_named(tmp_path: Path) -> None:
    owner: Json = {"type": "object", "properties": {"name": {"type": "string"}}}
    draft = draft_of(read_description(str(folder(tmp_path, components={"schemas": {"Owner": owner}}))))

    (stream,) = draft.streams
    loader: Json = stream.component["schema_loader"]
    properties = loader["schema"]["properties"]
    assert (stream.name, stream.component["primary_key"]) == ("pets", "id")
    assert properties["owner"]["properties"] == {"name": {"type": ["null", "string"]}}
    assert "integer" not in str(properties)
    (why,) = [guess.why for guess in draft.guesses if "others say" in guess.what]
    assert why.partition(" refers to ")[2] == (
        "../secret.json, https://schemas.example.com/kind.json, parts.json#/lists/gone"
    )


def test_a_description_of_which_all_is_elsewhere_says_so(tmp_path: Path) -> None:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps({"openapi": "3.0.0", "paths": {"/a": {"$ref": "https://example.com/paths.yaml#/a"}}}))

    with pytest.raises(
        ConfigError,
        match=r"there is no GET and no POST that searches; only files .* it refers to https://example.com/paths.yaml$",
    ):
        draft_of(read_description(str(path)))


def test_a_file_beside_that_is_broken_is_an_error(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (path.parent / "parts.json").write_text("{")

    with pytest.raises(ConfigError, match=r"parts.json: is not JSON"):
        draft_of(read_description(str(path)))
