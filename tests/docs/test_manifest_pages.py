"""What the pages about manifests show is right."""

import pytest
import yaml

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.declarative.manifest import Manifest
from cdk.declarative.source import ManifestSource
from cdk.declarative.syntax.legacy_syntax import adapt, migrate
from tests.docs.page import BLOCK, DOCS

PAGES = DOCS / "reference" / "manifest"
LANGUAGE = PAGES / "language.md"


def shown(kind: str) -> list[str]:
    return [text for found, text in BLOCK.findall(LANGUAGE.read_text()) if found == kind]


def test_the_manifest_that_is_shown_loads() -> None:
    (text,) = shown("yaml")

    assert [stream.name for stream in ManifestSource(Manifest(yaml.safe_load(text))).streams({})] == ["users"]


def test_the_errors_that_are_shown_are_those_that_are_raised() -> None:
    (text,) = shown("yaml")
    manifest = yaml.safe_load(text)
    stream = manifest["streams"][0]
    stream["$parameters"]["path"] = 5
    stream["retriever"]["paginator"] = {"type": "DefaultPaginator", "pagination_strategy": {"type": "OffsetIncremnt"}}

    with pytest.raises(ManifestError) as refused:
        Manifest(manifest).root()

    (said,) = shown("text")
    for line in said.splitlines():
        assert line.partition(" ")[2] in str(refused.value)


def test_every_old_word_of_the_table_is_read() -> None:
    for old in (
        {"$options": {"a": 1}},
        {"x": "*ref(definitions.api)"},
        *({"type": name} for name in _types_before()),
        {"type": "DpathExtractor", "field_pointer": []},
        {"type": "SessionTokenAuthenticator", "login_url": "x"},
    ):
        manifest: dict[str, Json] = {"it": old}
        assert migrate(manifest) is not manifest or adapt(manifest) is not manifest, old


def _types_before() -> list[str]:
    rows = [line for line in LANGUAGE.read_text().splitlines() if line.startswith("| `")]
    words = {row.split("`")[1] for row in rows}
    known = {"SessionTokenAuthenticator"}
    return sorted(word for word in words - known if word[0].isupper())
