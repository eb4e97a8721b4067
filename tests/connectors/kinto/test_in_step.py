"""A Kinto that people write to, change and delete from between syncs: the tables equal the server's own answers."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import requests

from cdk import Json, Record
from cdk.base.task_map import run_inline
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from connectors.kinto.source import Kinto
from tests.connectors.kinto.conftest import PASSWORD, USER, Server
from tests.worlds.table import problems, rows

COLLECTIONS = ("posts", "drafts", "42")
MODES: dict[str, dict[str, Json]] = {
    "logged": {"write_mode": "append"},
    "merged": {"write_mode": "append_dedup", "deletes": "hard"},
}


def write(kinto: Server, chance: random.Random) -> None:
    """Write, change and delete some records; their fields come, go and change their types."""
    for _ in range(chance.randint(5, 12)):
        path = f"blog/collections/{chance.choice(COLLECTIONS)}/records/r{chance.randint(0, 9)}"
        names = chance.sample(["n", "title", "tags", "deep", f"late_{chance.randint(0, 4)}"], 3)
        kinto.put(path, {name: _value(chance) for name in names})
        if chance.random() < 0.3:
            kinto.delete(path)


def _value(chance: random.Random) -> Json:
    return chance.choice([None, 1, 2**53 + 1, 0.5, "x", "ü", True, [1, "a"], {"a": {"b": None}}, {}])


def answers(kinto: Server) -> dict[tuple[str, str], Record]:
    """The living records, as the server itself tells them."""
    found: dict[tuple[str, str], Record] = {}
    for collection in COLLECTIONS:
        url = f"{kinto.url}/buckets/blog/collections/{collection}/records"
        answer = requests.get(url, auth=(USER, PASSWORD), timeout=30)
        answer.raise_for_status()
        found |= {(collection, record["id"]): record for record in answer.json()["data"]}
    return found


def sync(folder: Path, name: str, config: dict[str, Json]) -> Sequence[Record]:
    pipeline = Pipeline(
        name=name,
        source=SourceOptions(connector="kinto", config=config),
        target=TargetOptions(path=str(folder / name)),
        streams={"records": StreamOptions.model_validate(MODES[name])},
    )
    result = SyncRunner(pipeline, Kinto(), workers=Workers(run_inline, 2)).run()
    assert result.ok, [report.failure for report in result.streams]
    return rows(folder / name / "records")


@pytest.mark.parametrize("seed", range(2))
def test_tables_equal_what_the_server_answers_whatever_is_done_between_syncs(
    tmp_path: Path, kinto: Server, config: dict[str, Json], seed: int
) -> None:
    chance = random.Random(seed)
    kinto.put("blog")
    for collection in COLLECTIONS:
        kinto.put(f"blog/collections/{collection}")
    for _ in range(4):
        write(kinto, chance)
        there = answers(kinto)

        merged = sync(tmp_path, "merged", config)
        assert sorted((row["collection"], row["id"]) for row in merged) == sorted(there)
        assert not [lost for row in merged for lost in problems(row, there[row["collection"], row["id"]])]

        # Of every row that was appended, the last one of a key is what there is now.
        logged = sorted(sync(tmp_path, "logged", config), key=lambda row: row["last_modified"])
        last = {(row["collection"], row["id"]): row for row in logged}
        living = {key: row for key, row in last.items() if row["_ab_cdc_deleted_at"] is None}
        assert living.keys() == there.keys()
        assert not [lost for key, row in living.items() for lost in problems(row, there[key])]
