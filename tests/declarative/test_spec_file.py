"""The spec in a file beside the manifest."""

import json
from pathlib import Path

import pytest

from cdk.base.errors import ManifestError
from cdk.base.secret_masking import secret_values
from cdk.declarative.source import ManifestSource
from tests.declarative.test_source import manifest

SCHEMA = {
    "type": "object",
    "required": ["key"],
    "properties": {"key": {"type": "string", "airbyte_secret": True}, "day": {"type": "string"}},
}
SPEC = {
    "documentationUrl": "https://docs.test/it",
    "connectionSpecification": SCHEMA,
    "advanced_auth": {"auth_flow_type": "oauth2.0"},
}
IN_YAML = """
documentationUrl: https://docs.test/it
connectionSpecification:
  type: object
  required: [key]
  properties:
    key: {type: string, airbyte_secret: true}
    day: {type: string}
advanced_auth: {auth_flow_type: oauth2.0}
"""


def loaded(folder: Path, files: dict[str, str], **root: object) -> ManifestSource:
    (folder / "manifest.yaml").write_text(json.dumps(manifest(**root)))
    for name, text in files.items():
        (folder / name).write_text(text)
    return ManifestSource.load(folder / "manifest.yaml")


@pytest.mark.parametrize(
    "files", [{"spec.yaml": IN_YAML}, {"spec.json": json.dumps(SPEC)}, {"spec.json": json.dumps(SPEC, indent="\t")}]
)
def test_a_spec_beside_the_manifest_is_the_spec(tmp_path: Path, files: dict[str, str]) -> None:
    source = loaded(tmp_path, files)

    assert source.config_schema == SCHEMA
    assert source.documentation_url == "https://docs.test/it"
    assert source.advanced_auth == {"auth_flow_type": "oauth2.0"}
    assert list(secret_values(source.config_schema, {"key": "hunter22", "day": "monday"})) == ["hunter22"]


def test_the_spec_in_the_manifest_counts_first(tmp_path: Path) -> None:
    own = {"type": "Spec", "connection_specification": {"type": "object", "title": "own"}}

    assert loaded(tmp_path, {"spec.yaml": IN_YAML}, spec=own).config_schema["title"] == "own"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"spec.yaml": IN_YAML, "spec.json": "{}"}, "found spec.yaml and spec.json, expected one of them"),
        ({"spec.yaml": "openapi: 3.1.0"}, "spec.yaml: expected an object with `connectionSpecification`"),
        ({"spec.json": "[]"}, "spec.json: expected an object with `connectionSpecification`"),
        ({"spec.json": "{"}, "spec.json:1:2: is not JSON"),
        ({"spec.yaml": "a: [1"}, "spec.yaml:2:1: is not YAML"),
    ],
)
def test_a_file_that_is_no_spec_is_refused(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    with pytest.raises(ManifestError, match=expected):
        loaded(tmp_path, files)
