"""A verb of `spark-cdk state` that is killed has changed a stream whole or not at all; run again, it does the rest."""

import json
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest
from deltalake import DeltaTable

from tests.cli.conftest import CommandLine
from tests.cli.shop_pipeline import put_shop
from tests.spark.dying import dying_if_reached

SHOP = dedent("""
    from cdk import CountCursor, Page, Source, Stream
    from pathlib import Path

    class Orders(Stream):
        name = "orders"
        cursor = CountCursor("seq")
        primary_key = "id"
        schema = {"type": "object", "properties": {"id": {"type": "integer"}, "seq": {"type": "integer"}}}
        def read_records(self, slice):
            most = int(Path(__file__).with_name("most").read_text())
            yield Page([{"id": n, "seq": n} for n in range(most) if n >= slice.window.start], None)

    class Visits(Orders):
        name = "visits"

    class Shop(Source):
        stream_classes = [Orders, Visits]
        config_schema = {"type": "object"}
""")
PIPELINE = {
    "name": "shop",
    "source": {"connector": "shop.py"},
    "target": {"path": "tables"},
    "streams": {"orders": {}, "visits": {"write_mode": "append_dedup", "history": True}},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine) -> Path:
    put_shop(tmp_path, SHOP, monkeypatch)
    for name in ("shop", "store"):
        (tmp_path / f"{name}.yaml").write_text(json.dumps({**PIPELINE, "name": name}))
    for most in (2, 4):
        (tmp_path / "most").write_text(str(most))
        assert cli("sync", "shop.yaml", "--quiet").code == 0
    state = {"orders": {"seq": 1}, "visits": {"seq": 1}}
    (tmp_path / "states.json").write_text(json.dumps(state))
    return tmp_path


def cursors(cli: CommandLine, pipeline: str) -> list[int | None]:
    """The cursors of both streams; None: read from the start."""
    shown = json.loads("\n".join(cli("state", "show", f"{pipeline}.yaml", "--json").lines))["streams"]
    states = {stream["stream"]: stream["state"] or {} for stream in shown}
    return [states.get(name, {}).get("seq") for name in ("orders", "visits")]


def ids(folder: Path, name: str) -> list[int]:
    return sorted(DeltaTable(str(folder / "tables" / name)).to_pyarrow_table()["id"].to_pylist())


class Verb(NamedTuple):
    """A verb; the pipeline that it moves, and where to; how many of the four rows a sync then appends once more."""

    argv: tuple[str, ...]
    pipeline: str
    expected: int | None
    rows: int


VERBS = (
    Verb(("reset", "shop.yaml"), "shop", None, 4),
    Verb(("rewind", "shop.yaml", "--to", "1"), "shop", 1, 3),
    Verb(("import", "shop.yaml", "states.json", "--replace"), "shop", 1, 3),
    Verb(("fork", "shop.yaml", "store"), "store", 3, 0),
)


@pytest.mark.parametrize("time", [1, 2])
@pytest.mark.parametrize("point", ["before_state_blob", "after_state_blob", "after_commit"])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.argv[0])
def test_a_killed_verb_is_completed_by_the_same_one(
    cli: CommandLine, folder: Path, verb: Verb, point: str, time: int
) -> None:
    before = cursors(cli, verb.pipeline)
    with dying_if_reached(point, time):
        cli("state", *verb.argv)
    moved = time - (point != "after_commit")
    assert cursors(cli, verb.pipeline) == [verb.expected] * moved + before[moved:]
    assert cli("state", "verify", "shop.yaml").code == 0

    assert cli("state", *verb.argv).code == 0

    assert cursors(cli, verb.pipeline) == [verb.expected] * 2
    assert cli("sync", f"{verb.pipeline}.yaml", "--quiet").code == 0
    assert ids(folder, "orders") == sorted([*range(4), *range(4 - verb.rows, 4)])
    assert ids(folder, "visits") == [*range(4)]
    assert cli("state", "verify", "shop.yaml").code == 0
    assert cli("state", "gc", f"{verb.pipeline}.yaml", "--days", "0").lines[-1] == "0 files, 0 bytes removed"


@pytest.mark.parametrize("tables", [(), ("--tables",)])
@pytest.mark.parametrize("point", ["before_state_blob", "after_state_blob", "after_commit", "before_history"])
def test_a_killed_rollback_is_completed_by_the_same_one(
    cli: CommandLine, folder: Path, point: str, tables: tuple[str, ...]
) -> None:
    with dying_if_reached(point):
        cli("state", "rollback", "shop.yaml", "1", "--stream", "orders", *tables)

    assert cli("state", "rollback", "shop.yaml", "1", "--stream", "orders", *tables).code == 0

    assert cursors(cli, "shop") == [1, 3]
    assert cli("sync", "shop.yaml", "--quiet").code == 0
    assert ids(folder, "orders") == ([*range(4)] if tables else [0, 1, 2, 2, 3, 3])
    assert cli("state", "verify", "shop.yaml").code == 0
