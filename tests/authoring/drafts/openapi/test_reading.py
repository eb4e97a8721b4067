"""A description is read from a file or one URL, and from nowhere else."""

import pytest

from cdk.authoring.drafts.manifest_text import manifest_text
from cdk.authoring.drafts.openapi.description import Description
from cdk.authoring.drafts.openapi.from_description import draft_of
from cdk.authoring.drafts.openapi.reading import read_description
from cdk.base.errors import CdkError
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
        "nothing but the description is read, and it refers to other.json#/a"
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
