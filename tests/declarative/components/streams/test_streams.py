"""DeclarativeStream: what a stream of a manifest is made of."""

from typing import Any

import pytest

from cdk.declarative.reading.manifest_stream import ManifestStream
from cdk.streams.stream import Stream
from cdk.testing import MockApi
from tests.declarative.manifests import CURSOR, run, source


def made(**stream: Any) -> Stream:
    (built,) = source(MockApi(), stream=stream).streams({"region": "eu"})
    return built


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (None, []),
        ([], []),
        ("", [""]),
        ("id", ["id"]),
        (["id", "on"], ["id", "on"]),
        ([["id"], ["deep", "on"]], [["id"], ["deep", "on"]]),
    ],
)
def test_a_primary_key_is_a_field_several_or_paths(key: Any, expected: Any) -> None:
    assert list(made(primary_key=key).primary_key) == expected


def test_a_stream_advances_only_with_a_cursor() -> None:
    plain, incremental = made(), made(incremental_sync=CURSOR)

    assert isinstance(plain, ManifestStream)
    assert (plain.name, plain.cursor_field, plain.supports_checkpointing) == ("items", None, False)
    assert (incremental.cursor_field, incremental.supports_checkpointing) == ("on", True)
    assert (plain.empty_state, incremental.empty_state) == ({}, {"on": "2024-01-01"})


def test_a_field_that_is_null_has_its_default() -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})

    assert run(api, stream={"transformations": None, "primary_key": None, "incremental_sync": None}).records == [
        {"id": 1}
    ]


def test_records_are_changed_in_the_order_of_the_manifest() -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}]})

    def add(name: str, value: str) -> dict[str, Any]:
        return {"type": "AddFields", "fields": [{"path": [name], "value": value}]}

    changes = [add("one", "{{ record.id + 1 }}"), add("two", "{{ record.one + 1 }}")]
    remove = {"type": "RemoveFields", "field_pointers": [["one"]]}

    assert run(api, stream={"transformations": [*changes, remove]}).records == [{"id": 1, "two": 3}]
