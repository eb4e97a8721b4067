"""`spark-cdk detect`."""

import json
from pathlib import Path

import responses

from tests.cli.authoring.test_validate import MANIFEST
from tests.cli.conftest import CommandLine


@responses.activate
def test_programs_get_one_document_without_secrets(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text(MANIFEST)
    (tmp_path / "config.json").write_text('{"key": "hunter2-hunter2-hunter2"}')
    first = {"hunter2-hunter2-hunter2": [{"id": 1}, {"id": 2}], "next_cursor": "c"}
    responses.get("https://api.test/users", json=first)
    responses.get("https://api.test/users", json=first)
    responses.get("https://api.test/users", json={"hunter2-hunter2-hunter2": [{"id": 3}]})

    ran = cli("detect", "users", "--manifest-path", "manifest.yaml", "--config", "config.json", "--json")

    answer = json.loads("\n".join(ran.lines))
    assert (ran.code, answer["format"], answer["records"], answer["field_path"]) == (
        0,
        "spark-cdk-detect/1",
        2,
        ["****"],
    )
    assert [(each["works"], each["why"]) for each in answer["tried"]] == [(True, "the next page has 1 other records")]
    assert answer["retriever"]["paginator"]["pagination_strategy"]["type"] == "CursorPagination"
    assert "hunter2" not in "".join(ran.lines)


@responses.activate
def test_a_count_of_more_than_the_only_page_has_is_said(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text(MANIFEST)
    (tmp_path / "config.json").write_text('{"key": "hunter2-hunter2-hunter2"}')
    responses.get("https://api.test/users", json={"users": [{"id": 1}], "total": 30})

    ran = cli("detect", "users", "--manifest-path", "manifest.yaml", "--config", "config.json")
    document = cli("detect", "users", "--manifest-path", "manifest.yaml", "--config", "config.json", "--json")

    doubt = "30 in total of the body, and the page has 1 records"
    assert (ran.code, ran.lines[-1]) == (
        1,
        f"no paginator was found, though there is {doubt}; see the API's documentation for the next page",
    )
    assert json.loads("\n".join(document.lines))["doubt"] == doubt


def test_connectors_in_python_have_no_paginator_to_try(cli: CommandLine, users: str) -> None:
    ran = cli("detect", "users", "--connector", users)

    assert (ran.code, ran.lines) == (1, [])
    assert "`detect` tries paginators of manifests: name one by --manifest-path" in ran.stderr
