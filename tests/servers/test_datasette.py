"""A real Datasette over a SQLite file that people write to between syncs: the tables equal the server's own answers."""

import random
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import requests
import yaml

from cdk import Json, Record
from cdk.base.task_map import run_inline
from cdk.sources.manifests import manifest_source
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.tasks.workers import Workers
from tests.servers.process import serving
from tests.worlds.table import problems, rows

MANIFEST = """
version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [whole]}
definitions:
  rows: &rows
    type: DeclarativeStream
    primary_key: id
    retriever:
      type: SimpleRetriever
      requester:
        type: HttpRequester
        url_base: "{{ config['url'] }}"
        path: /notes/notes.json
        request_parameters: {_shape: objects, _size: "4"}
      record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: [rows]}}
      paginator:
        type: DefaultPaginator
        page_token_option: {type: RequestPath}
        pagination_strategy:
          type: CursorPagination
          cursor_value: "{{ response.next_url }}"
          stop_condition: "{{ not response.next_url }}"
    schema_loader:
      type: InlineSchemaLoader
      schema: {type: object, properties: {id: {type: integer}, version: {type: integer}, stars: {type: number}}}
streams:
  - {<<: *rows, name: whole}
  - {<<: *rows, name: cleaned}
  - <<: *rows
    name: changed
    incremental_sync:
      type: IncrementingCountCursor
      cursor_field: version
      start_value: 0
      start_value_option: {type: RequestOption, inject_into: request_parameter, field_name: version__gte}
spec:
  type: Spec
  connection_specification: {type: object, properties: {url: {type: string}}}
"""
STREAMS: dict[str, Json] = {
    "whole": {"write_mode": "overwrite"},
    "cleaned": {"write_mode": "append_dedup", "remove_stale": {"removal": "hard", "fail_safe_threshold": 100}},
    "changed": {"write_mode": "append_dedup"},
}


class Notes:
    """The database behind the server. version: that of the last change."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self._path, self._chance = path, chance
        self.version = 0
        self._columns = ["body", "stars"]
        self._do("create table notes (id integer primary key, version integer, body, stars)")

    def write(self) -> None:
        """Write some notes, change some and delete some; now and then there is a new column."""
        chance = self._chance
        if chance.random() < 0.5:
            self._columns.append(f"more_{len(self._columns)}")
            self._do(f"alter table notes add column {self._columns[-1]}")
        for _ in range(chance.randint(5, 15)):
            self.version += 1
            self._do("delete from notes where id = ?", chance.randint(1, 20))
            if chance.random() < 0.8:
                names = ["id", "version", *self._columns]
                values = [chance.randint(1, 20), self.version, *(self._value() for _ in self._columns)]
                marks = ", ".join("?" * len(names))
                self._do(f"insert or replace into notes ({', '.join(names)}) values ({marks})", *values)  # noqa: S608

    def _value(self) -> Json:
        return self._chance.choice([None, "", "ünï", "8", 8, 2**53 + 1, 0.1, -1.5, "a\nb", '{"a": 1}', b"\x00\xff"])

    def _do(self, statement: str, *values: Json) -> None:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute(statement, values)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.yaml").write_text(MANIFEST)
    return tmp_path


def answers(url: str) -> dict[int, Record]:
    """What the server itself says, asked for in one go."""
    answer = requests.get(f"{url}/notes/notes.json?_shape=array&_size=max", timeout=30)
    answer.raise_for_status()
    return {record["id"]: record for record in answer.json()}


def sync(folder: Path, url: str) -> None:
    pipeline = {
        "name": "notes",
        "source": {"manifest": "notes.yaml", "config": {"url": url}},
        "streams": STREAMS,
        "target": {"path": "tables"},
        "checkpoint_interval": "0s",
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(pipeline))
    loaded = Pipeline.load(folder / "pipeline.yaml")
    result = SyncRunner(loaded, manifest_source(folder / "notes.yaml"), workers=Workers(run_inline, 2)).run()
    assert result.ok, [report.failure for report in result.streams]


def table(folder: Path, name: str) -> dict[int, Record]:
    found = rows(folder / "tables" / name)
    assert len(found) == len({row["id"] for row in found})
    return {row["id"]: row for row in found}


def served(path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "datasette", "serve", str(path), "--host", "127.0.0.1", "--port", "0"]
    with serving(command, r"running on (http://127\.0\.0\.1:\d+)") as url:
        yield url


@pytest.mark.parametrize("seed", range(2))
def test_tables_equal_what_a_datasette_answers_whatever_is_done_between_syncs(folder: Path, seed: int) -> None:
    notes = Notes(folder / "notes.db", random.Random(seed))
    deleted: dict[int, Record] = {}
    for url in served(folder / "notes.db"):
        for _ in range(4):
            notes.write()
            sync(folder, url)

            there = answers(url)
            for name in ("whole", "cleaned"):
                assert table(folder, name).keys() == there.keys()
            changed = table(folder, "changed")
            # Who asks for changes alone hears of no deletion.
            assert changed.keys() - deleted.keys() <= there.keys() <= changed.keys()
            for name in STREAMS:
                lost = [
                    problem for id, record in there.items() for problem in problems(table(folder, name)[id], record)
                ]
                assert not lost
            deleted = {**deleted, **changed}
