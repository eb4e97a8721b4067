import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdk.lake.arrow.columns import table_schema
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.lake.parquet.writer import DataFile
from cdk.lake.storage.folder import LocalFolder
from cdk.lake.storage.run_lock import note_completed
from tests.cli.conftest import CommandLine

PIPELINE = dedent("""
    name: shop
    source:
      connector: nowhere.to.be.found
      config: {api_key: "${API_KEY}"}
    target:
      path: tables
    streams: [orders, products, users]
""")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    return tmp_path


def commit(folder: Path, stream: str, saved: TableState, *, rows: int = 3) -> StreamTable:
    table = StreamTable(folder / "tables" / stream, "shop", stream, table_schema({}))
    path = folder / "tables" / stream / f"part-{table.version}.parquet"
    pq.write_table(pa.table({"_airbyte_raw_id": ["x"] * rows}), path)
    table.commit(saved, [DataFile(path.name, path.stat().st_size, rows, 1_700_000_000_000)])
    return table


def test_tables_at_a_file_url_are_those_of_its_folder(cli: CommandLine, folder: Path) -> None:
    commit(folder, "orders", TableState("incremental", "append", complete=True))
    by_path = cli("tables", "pipeline.yaml")
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("path: tables", f"path: file://{folder}/tables"))

    assert cli("tables", "pipeline.yaml") == by_path
    assert by_path.code == 0


def test_each_table_has_a_row_with_what_the_next_sync_does(cli: CommandLine, folder: Path) -> None:
    commit(folder, "orders", TableState("incremental", "append", complete=True))
    waiting = (DataFile("a", 1, 1200, 0),)
    commit(folder, "products", TableState("full_refresh", "overwrite", generation=2, pending=waiting))

    ran = cli("tables", "pipeline.yaml")

    assert (ran.code, ran.stderr) == (0, "")
    orders, products, users = (next(line for line in ran.lines if f" {name} " in line) for name in NAMES)
    assert orders.split()[:3] == ["orders", "3", "1"]
    assert "complete     reads what is new" in orders
    assert "interrupted  resumes where the last one stopped" in products
    assert "never        reads everything" in users
    assert "products: 1,200 rows of generation 2 are not visible until it is complete" in ran.lines
    assert ran.lines[-1] == f"shop → {folder}/tables: 3 tables"


NAMES = ("orders", "products", "users")


def test_programs_get_json(cli: CommandLine, folder: Path) -> None:
    table = commit(folder, "orders", TableState("incremental", "append", generation=4, complete=True))
    (size,) = (path.stat().st_size for path in (folder / "tables" / "orders").glob("*.parquet"))

    answer = json.loads("\n".join(cli("tables", "pipeline.yaml", "--json").lines))

    orders = answer["tables"][0]
    assert orders.pop("committed_at") == orders.pop("completed_at") is not None
    assert 0 <= orders.pop("age_seconds") < 10_000
    assert answer["format"] == "spark-cdk-tables/1"
    assert orders == {
        "stream": "orders",
        "path": str(folder / "tables" / "orders"),
        "state": "complete",
        "rows": 3,
        "waiting_rows": 0,
        "files": 1,
        "bytes": size,
        "average_file_bytes": size,
        "version": table.version,
        "cursor": None,
        "lag_seconds": None,
        "stale": None,
        "generation": 4,
        "partition_columns": [],
        "sync_mode": "incremental",
        "write_mode": "append",
        "next": "reads what is new",
        "problem": None,
        "hint": None,
    }
    assert [(one["stream"], one["state"], one["version"]) for one in answer["tables"][1:]] == [
        ("products", "never", None),
        ("users", "never", None),
    ]


@pytest.mark.parametrize(
    ("keys", "options", "stale"),
    [
        ("", (), {}),
        ("", ("--max-age", "1h"), {"products": "max_age", "users": "max_age"}),
        ("", ("--max-age", "1h", "--max-lag", "1d"), {"orders": "max_lag", "products": "max_age", "users": "max_age"}),
        ("max_lag: 1d", (), {"orders": "max_lag"}),
        ("max_lag: 1d", ("--max-lag", "2000w"), {}),
        ("max_lag: 1d\nstreams: {orders: {max_lag: 2000w}, users: {max_age: 1h}}", (), {"users": "max_age"}),
        ("max_age: 1h\nstreams: [orders]", (), {}),
    ],
)
def test_a_table_that_is_older_than_it_may_be_gives_an_exit_code_of_its_own(
    cli: CommandLine, folder: Path, keys: str, options: tuple[str, ...], stale: dict[str, str]
) -> None:
    pipeline = PIPELINE.replace("streams: [orders, products, users]", "") if "streams" in keys else PIPELINE
    (folder / "pipeline.yaml").write_text(f"{pipeline}\n{keys}")
    cursor = {"updated_at": "2001-01-01T00:00:00Z"}
    commit(folder, "orders", TableState("incremental", "append", complete=True, state=cursor))
    commit(folder, "products", TableState("incremental", "append"))

    ran = cli("tables", "pipeline.yaml", *options)
    answer = json.loads("\n".join(cli("tables", "pipeline.yaml", "--json", *options).lines))

    assert ran.code == (3 if stale else 0)
    assert {line for line in ran.lines if "stale" in line} == {
        f"{n}: stale: exceeds {what}" for n, what in stale.items()
    }
    assert {one["stream"]: one["stale"] for one in answer["tables"] if one["stale"]} == stale
    assert answer["tables"][0]["cursor"] == "2001-01-01T00:00:00+00:00"


def test_a_sync_that_found_nothing_new_makes_a_table_younger_than_its_last_commit(
    cli: CommandLine, folder: Path
) -> None:
    commit(folder, "orders", TableState("incremental", "append", complete=True))
    later = datetime(2999, 1, 1, tzinfo=UTC)
    note_completed(LocalFolder(folder / "tables"), "shop", {"orders": later, "users": later})

    answer = json.loads("\n".join(cli("tables", "pipeline.yaml", "--json").lines))

    assert [(one["completed_at"], one["age_seconds"]) for one in answer["tables"]] == [
        (later.isoformat(), 0),
        (None, None),
        (None, None),  # it was removed since
    ]


def test_neither_spark_nor_pandas_is_imported(cli: CommandLine, folder: Path) -> None:
    assert cli("tables", "pipeline.yaml").code == 1  # before the first sync
    commit(folder, "orders", TableState("incremental", "append"))
    code = (
        "import sys; from cdk.cli.app import run; code = run(['tables', 'pipeline.yaml']);"
        "sys.exit(code or ', '.join({'pyspark', 'pandas', 'connectors'} & set(sys.modules)) or 0)"
    )

    ended = subprocess.run([sys.executable, "-c", code], cwd=folder, check=False, capture_output=True, text=True)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("elsewhere", "elsewhere: the folder is missing: run a sync, which creates it"),
        ("${NOWHERE}", "the environment variable NOWHERE is not set"),
    ],
)
def test_a_target_that_is_not_there_is_told(cli: CommandLine, folder: Path, path: str, said: str) -> None:
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("path: tables", f"path: {path}"))

    ran = cli("tables", "pipeline.yaml")

    assert (ran.code, ran.lines) == (1, [])
    assert said in ran.stderr


@pytest.mark.parametrize(
    ("keys", "options", "stale"),
    [
        (
            "max_age: 1h\nstreams: [orders, users]",
            (),
            ["orders: stale: exceeds max_age", "users: stale: exceeds max_age"],
        ),
        ("streams: {orders: {}, users: {max_age: 1h}}", (), ["users: stale: exceeds max_age"]),
        ("max_age: 1h", (), ["shop: stale: exceeds max_age: no sync has read a stream to its end"]),
        ("", ("--max-age", "1h"), ["shop: stale: exceeds max_age: no sync has read a stream to its end"]),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_a_pipeline_that_never_ran_is_older_than_it_may_be(
    cli: CommandLine, folder: Path, keys: str, options: tuple[str, ...], stale: list[str], *, there: bool
) -> None:
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("streams: [orders, products, users]", keys))
    if there:
        (folder / "tables").mkdir()

    ran, as_json = cli("tables", "pipeline.yaml", *options), cli("tables", "pipeline.yaml", "--json", *options)

    assert (ran.code, as_json.code, ran.stderr) == (3, 3, "")
    assert [line for line in ran.lines if "stale" in line] == stale
    listed = json.loads("\n".join(as_json.lines))["tables"]
    assert [one["stream"] for one in listed if one["stale"]] == [
        line.partition(":")[0] for line in stale if "sync" not in line
    ]
    assert (folder / "tables").exists() is there


def test_a_log_that_cannot_be_read_is_told(cli: CommandLine, folder: Path) -> None:
    commit(folder, "orders", TableState("incremental", "append"))
    commit(folder, "products", TableState("incremental", "append", complete=True))
    path = folder / "tables" / "orders" / "_delta_log" / f"{1:020}.json"
    path.write_text("no log")

    ran, as_json = cli("tables", "pipeline.yaml"), cli("tables", "pipeline.yaml", "--json")

    assert (ran.code, as_json.code) == (1, 1)
    assert ran.lines[-2].startswith(f"orders: {path}: the table's log is damaged: found no JSON in line 1")
    orders, products = json.loads("\n".join(as_json.lines))["tables"][:2]
    assert (orders["state"], orders["next"]) == ("unreadable", "fails before it reads: the table cannot be read")
    assert orders["problem"] in ran.lines[-2]
    assert (products["state"], products["problem"]) == ("complete", None)


def test_before_anything_is_committed_it_says_so(cli: CommandLine, folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(PIPELINE.replace("streams: [orders, products, users]", ""))
    (folder / "tables").mkdir()

    assert cli("tables", "pipeline.yaml").lines == [f"shop → {folder}/tables: no sync has committed anything yet"]
