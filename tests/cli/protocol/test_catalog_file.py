import json
from pathlib import Path

import pytest
from msgspec import to_builtins

from cdk import CatalogError
from cdk.base.values import Json, JsonSchema
from cdk.cli.protocol.catalog_file import load_catalog, offered, whole_catalog
from cdk.protocol.catalog import SyncMode
from tests.samples import STREAMS, Events, Users

STREAM = {"name": "users", "json_schema": {}, "supported_sync_modes": ["full_refresh"]}
WANTED = {"stream": STREAM, "sync_mode": "full_refresh", "destination_sync_mode": "append"}


def write(path: Path, value: Json) -> Path:
    file = path / "catalog.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    return file


def test_without_a_catalog_every_stream_is_wanted_in_the_way_it_allows() -> None:
    wanted = whole_catalog([Users(), Events()]).streams

    assert [(item.stream.name, item.sync_mode) for item in wanted] == [
        ("users", SyncMode.FULL_REFRESH),
        ("events", SyncMode.INCREMENTAL),
    ]


def test_a_catalog_may_be_written_by_hand_with_what_matters(tmp_path: Path) -> None:
    file = write(tmp_path, {"streams": [{"stream": {"name": "users"}, "sync_mode": "full_refresh"}]})

    assert [item.stream.name for item in load_catalog(file).streams] == ["users"]


def test_what_discover_offers_can_be_wanted_as_it_is(tmp_path: Path) -> None:
    catalog = offered(STREAMS)
    line = {"type": "CATALOG", "catalog": to_builtins(catalog)}
    log = {"type": "LOG", "log": {"level": "INFO", "message": "x"}}

    for text in (line, line["catalog"], json.dumps(log) + "\n" + json.dumps(line) + "\n"):
        assert load_catalog(write(tmp_path, text)) == whole_catalog(STREAMS)


def test_what_discover_offers_is_warned_of_where_its_schema_has_slips(caplog: pytest.LogCaptureFixture) -> None:
    class Slipping(Users):
        schema: JsonSchema = {"properties": {"id": {"type": "int"}}}  # noqa: RUF012 - as an author writes it

    offered([Slipping(), Users()])

    (message,) = caplog.messages
    assert message.startswith("slipping: its schema has mistakes: properties.id.type is 'int'; did you mean 'integer'?")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            {"streams": [{**WANTED, "sync_mode": "incrmental"}]},
            r"catalog.json: streams\[0\].sync_mode: found 'incrmental', expected 'full_refresh' or 'incremental'",
        ),
        (
            {"streams": [WANTED, {"sync_mode": "incremental"}]},
            r"catalog.json: streams\[1\].stream: found nothing, expected a value",
        ),
        ({"streams": {}}, r'catalog.json: found an object, expected \{"streams": \[...\]\}'),
        ([], "found a list, .* a configured catalog"),
        ('{"streams": [', r"catalog.json:1:14: is not JSON"),
    ],
)
def test_a_catalog_that_is_none_says_where(tmp_path: Path, value: Json, said: str) -> None:
    with pytest.raises(CatalogError, match=said):
        load_catalog(write(tmp_path, value))
