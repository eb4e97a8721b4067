"""A Singer catalog becomes streams with schemas, keys and cursors; of requests it says nothing, and that is said."""

from pathlib import Path

import pytest

from cdk import ConfigError
from cdk.authoring.drafts.imports.singer_catalog import draft_of_singer
from cdk.authoring.drafts.manifest_text import manifest_text
from cdk.base.values import Json
from cdk.testing import MockApi, MockClock, read

USERS: Json = {
    "tap_stream_id": "users",
    "stream": "users",
    "key_properties": ["id"],
    "schema": {
        "type": "object",
        "properties": {
            "id": {"type": ["null", "integer"]},
            "updated_at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
            "photo": {"type": "string"},
        },
    },
    "metadata": [
        {"breadcrumb": [], "metadata": {"selected": True, "valid-replication-keys": ["updated_at"]}},
        {"breadcrumb": ["properties", "photo"], "metadata": {"selected": False}},
    ],
}
EVENTS: Json = {
    "stream": "Events",
    "schema": {"properties": {"seq": {"type": "integer"}, "region": {"type": "string"}}},
    "replication_key": "seq",
    "replication_method": "LOG_BASED",
    "metadata": [{"breadcrumb": [], "metadata": {"selected": False, "table-key-properties": ["region", "seq"]}}],
}


def test_schemas_keys_and_cursors_are_carried_over(tmp_path: Path) -> None:
    settings: Json = {"api_token": "hush-5f2d91c07b", "page_size": 50, "start_date": "2020-01-01"}
    draft = draft_of_singer({"streams": [USERS, EVENTS]}, settings, "catalog.json")
    (tmp_path / "manifest.yaml").write_text(manifest_text(draft))
    api = MockApi()
    users = api.get("/users").returns(json=[{"id": 1, "updated_at": "2024-02-01T00:00:00Z"}])
    api.get("/Events").returns(json=[{"seq": 7, "region": "eu"}])

    run = read(
        tmp_path / "manifest.yaml", config=draft.config.example, transport=api, clock=MockClock("2024-03-01T00:00:00Z")
    )

    assert run.error is None
    assert dict(run.schemas["users"])["properties"] == USERS["schema"]["properties"]
    assert users.requests[0].headers["Authorization"].startswith("Bearer ")
    components: list[Json] = [stream.component for stream in draft.streams]
    assert [each["primary_key"] for each in components] == ["id", ["region", "seq"]]
    cursors = [each["incremental_sync"] for each in components]
    assert [(each["type"], each["cursor_field"]) for each in cursors] == [
        ("DatetimeBasedCursor", "updated_at"),
        ("IncrementingCountCursor", "seq"),
    ]


def test_what_a_catalog_does_not_say_and_what_is_left_out_is_listed() -> None:
    draft = draft_of_singer({"streams": [USERS, EVENTS]}, {"page_size": 50}, "catalog.json")

    assert draft.guesses[0].what.startswith("requests: a GET of each stream's name")
    assert [each.path for each in draft.left_out] == [
        "config.page_size",
        "streams.users.photo",
        "streams.events.replication_method",
    ]
    assert "leave it out of the pipeline's `streams`" in [guess.check for guess in draft.streams[1].guesses]


def test_no_value_of_the_taps_config_is_carried_over() -> None:
    draft = draft_of_singer({"streams": [USERS]}, {"api_token": "hush-1", "password": "hush-2"}, "catalog.json")

    assert "hush" not in manifest_text(draft) + str(draft)
    assert draft.config.properties["password"] == {"type": "string", "title": "password", "airbyte_secret": True}


def test_what_is_no_catalog_says_what_is_expected() -> None:
    values: list[Json] = [[], {"streams": [{}]}]
    for value in values:
        with pytest.raises(ConfigError, match="expected a catalog of Singer"):
            draft_of_singer(value, {}, "catalog.json")
