"""Connectors that are drafted from API descriptions are read from a simulation of their API, and counted."""

import json
from pathlib import Path

import pytest

from cdk.base.values import Json
from tools.api_descriptions import lines, main, outcome_of


def put(folder: Path, name: str, paths: dict[str, Json], **more: Json) -> Path:
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Shop", "version": "1"},
        "paths": {path: {"get": get} for path, get in paths.items()},
        **more,
    }
    (folder / name).write_text(json.dumps(document))
    return folder / name


def get(schema: Json) -> Json:
    return {"responses": {"200": {"content": {"application/json": {"schema": schema}}}}}


ORDER: Json = {"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}
ORDERS = get({"type": "array", "items": ORDER})
SERVERS: Json = [{"url": "https://api.example.com"}]


def test_streams_and_records_are_counted_and_what_was_guessed_and_left_out(tmp_path: Path) -> None:
    paths = {"/orders": ORDERS, "/orders/{order_id}": get(ORDER)}

    outcome = outcome_of(put(tmp_path, "shop.json", paths, servers=SERVERS), records=7)

    assert (outcome.streams, outcome.read, outcome.records, outcome.error, outcome.failed) == (1, 1, 7, "", {})
    assert [*lines(outcome)][:2] == ["shop.json: 1 of 1 streams read, 7 records", "  guessed: 1 x primary key"]
    assert [*lines(outcome)][-1] == "  left out: 1 x it reads one object by its key"


def test_a_description_that_names_no_server_is_read_from_a_made_up_one(tmp_path: Path) -> None:
    outcome = outcome_of(put(tmp_path, "shop.json", {"/orders": ORDERS}), records=7)

    assert (outcome.read, outcome.failed) == (1, {})


def test_why_a_description_gives_no_connector_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "good.json", {"/orders": ORDERS}, servers=SERVERS)
    (tmp_path / "none.yaml").write_text("openapi: 3.0.0\npaths: {}\n")
    (tmp_path / "README.md").write_text("no description")

    assert main([str(tmp_path)]) == 1

    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("good.json: 1 of 1 streams read, ")
    assert any(line.startswith("  no connector: ") for line in printed)
    assert printed[-1] == "2 descriptions: 1 of 1 streams read"


def test_all_that_was_read_is_no_failure(tmp_path: Path) -> None:
    put(tmp_path, "good.json", {"/orders": ORDERS}, servers=SERVERS)

    assert main([str(tmp_path), "--records", "3"]) == 0


def test_a_stream_with_a_cursor_starts_where_the_config_has_it_by_default(tmp_path: Path) -> None:
    order: Json = {"properties": {"id": {"type": "integer"}, "updated_at": {"type": "string", "format": "date-time"}}}
    since: Json = {"name": "since", "in": "query", "schema": {"type": "string", "format": "date-time"}}
    orders = {**get({"type": "array", "items": order}), "parameters": [since]}

    outcome = outcome_of(put(tmp_path, "shop.json", {"/orders": orders}, servers=SERVERS), records=7)

    assert (outcome.read, outcome.failed) == (1, {})
    assert outcome.guesses["incremental by"] == 1


KNOWN = """
version: 4.3.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [orders]}
streams:
  - type: DeclarativeStream
    name: orders
    primary_key: [number]
    $parameters: {path: v1/orders}
    retriever: &orders
      type: SimpleRetriever
      requester:
        type: HttpRequester
        url_base: "https://{{ config['shop'] }}.example.com"
        authenticator: {type: BearerAuthenticator, api_token: x}
      record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: []}}
      paginator:
        type: DefaultPaginator
        page_token_option: {type: RequestOption, inject_into: request_parameter, field_name: page}
        pagination_strategy: {type: PageIncrement}
    schema_loader: {type: InlineSchemaLoader, schema: {type: object}}
  - {type: DeclarativeStream, name: more, retriever: *orders, $parameters: {path: "v1/orders/{{ config['id'] }}"}}
  - {type: DeclarativeStream, name: other, retriever: *orders, $parameters: {path: others}}
"""


def test_what_differs_from_a_known_manifest_is_listed_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "apis").mkdir()
    (tmp_path / "known").mkdir()
    (tmp_path / "known" / "shop.yaml").write_text(KNOWN)
    put(tmp_path / "apis", "shop.json", {"/orders": ORDERS, "/orders/{order_id}": get(ORDER)}, servers=SERVERS)

    assert main([str(tmp_path / "apis"), "--known", str(tmp_path / "known")]) == 0

    printed = [line for line in capsys.readouterr().out.splitlines() if "differs" in line or "known" in line]
    assert printed == [
        "  differs: 1 x login: found NoAuth, known BearerAuthenticator (orders)",
        "  differs: 1 x key: found id, known number (orders)",
        "  differs: 1 x pages: found none, known PageIncrement in page (orders)",
        "  differs: 1 x stream: found left out: it reads one object by its key, known a stream (more)",
        "  known, and no GET of the description: other",
        "differs: 1 of 1 x key",
        "differs: 1 of 1 x login",
        "differs: 1 of 1 x pages",
        "differs: 0 of 1 x records",
        "differs: 1 of 2 x stream",
    ]
