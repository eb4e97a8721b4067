"""A real Datasette over a SQLite file that people write to between syncs: the tables equal the server's own answers."""

import random
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import requests

from cdk import Json, Record
from cdk.base.task_map import run_inline
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.tasks.workers import Workers
from connectors.datasette import source
from tests.servers.process import serving
from tests.worlds.table import problems, rows

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


def answers(url: str) -> dict[int, Record]:
    """What the server itself says, asked for in one go."""
    answer = requests.get(f"{url}/notes/notes.json?_shape=array&_size=max", timeout=30)
    answer.raise_for_status()
    return {record["id"]: record for record in answer.json()}


def sync(folder: Path, url: str, names: Sequence[str]) -> None:
    """Sync the table into some of ours, each written in its way."""
    for name in names:
        options = STREAMS[name]
        config = {"url": url, "database": "notes", "page_size": 4}
        if name == "changed":
            config["cursor_column"] = "version"
        pipeline = Pipeline.model_validate(
            {
                "name": name,
                "source": {"connector": "datasette", "config": config},
                "streams": {"notes": options},
                "target": {"path": str(folder / name)},
                "checkpoint_interval": "0s",
            }
        )
        result = SyncRunner(pipeline, source, workers=Workers(run_inline, 2)).run()
        assert result.ok, [report.failure for report in result.streams]


def table(folder: Path, name: str) -> dict[int, Record]:
    found = rows(folder / name / "notes")
    assert len(found) == len({row["id"] for row in found})
    return {row["id"]: row for row in found}


def served(path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "datasette", "serve", str(path), "--host", "127.0.0.1", "--port", "0"]
    with serving(command, r"running on (http://127\.0\.0\.1:\d+)") as url:
        yield url


@pytest.mark.parametrize(("seed", "names"), [(0, ("whole", "changed")), (1, ("cleaned", "changed"))])
def test_tables_equal_what_a_datasette_answers_whatever_is_done_between_syncs(
    tmp_path: Path, seed: int, names: Sequence[str]
) -> None:
    folder = tmp_path
    notes = Notes(folder / "notes.db", random.Random(seed))
    deleted: dict[int, Record] = {}
    for url in served(folder / "notes.db"):
        for _ in range(4):
            notes.write()
            sync(folder, url, names)

            there = answers(url)
            assert table(folder, names[0]).keys() == there.keys()
            changed = table(folder, "changed")
            # Who asks for changes alone hears of no deletion.
            assert changed.keys() - deleted.keys() <= there.keys() <= changed.keys()
            for name in names:
                lost = [
                    problem for id, record in there.items() for problem in problems(table(folder, name)[id], record)
                ]
                assert not lost
            deleted = {**deleted, **changed}
