"""`spark-cdk sync` that only shows what it would read; it starts no Spark."""

from pathlib import Path
from textwrap import dedent

import orjson
import pytest

from cdk.base.task_map import run_inline
from cdk.sources.discovery import find_source
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.tasks.workers import Workers
from tests.cli.conftest import CommandLine
from tests.cli.shop_pipeline import PIPELINE, put_shop

SHOP = dedent("""
    from cdk import CountCursor, Page, PagedStream, ServerError, Source, Stream

    class Users(PagedStream):
        def read_page(self, slice, token):
            n = token["page"] if token else 0
            return Page([{"id": n}], {"page": n + 1} if n < 9 else None)

    class Events(Stream):
        cursor = CountCursor("seq")
        def read_records(self, slice):
            raise ServerError(f"the source refused {self.config['api_key']}")
            yield

    class Shop(Source):
        stream_classes = [Users, Events]
        config_schema = {"type": "object", "properties": {"api_key": {"type": "string", "airbyte_secret": True}}}
""")
LOG = "state: {state_provider: {type: local, config: {path: log}}}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return put_shop(tmp_path, SHOP, monkeypatch)


def test_a_dry_run_plans_and_reads_nothing(cli: CommandLine, folder: Path) -> None:
    ran = cli("sync", "pipeline.yaml", "--dry-run")

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.lines == [
        "users: full_refresh, overwrite, from its start",
        "  whole stream",
        "events: incremental, append, from its start",
        "  [0, …]",
        "nothing was written",
    ]
    assert not (folder / "tables").exists()


def test_a_preview_shows_records_and_what_goes_wrong_without_secrets(cli: CommandLine, folder: Path) -> None:
    ran = cli("sync", "pipeline.yaml", "--preview", "2")

    assert ran.code == 1
    assert ran.lines[:4] == ["users: full_refresh, overwrite, from its start", "  whole stream", '{"id":0}', '{"id":1}']
    assert ran.stderr == "events: the source refused ****\n"
    assert not (folder / "tables").exists()


def test_a_pipeline_that_ignores_the_new_state_is_previewed(cli: CommandLine, folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(f"{PIPELINE}state: {{ignore_new_state: true}}\n")

    ran = cli("sync", "pipeline.yaml", "--stream", "users")

    assert (ran.code, ran.lines[-1]) == (0, "nothing was written")
    assert not (folder / "tables").exists()


def test_it_says_what_would_become_of_rows_that_the_source_has_no_more(cli: CommandLine, folder: Path) -> None:
    streams = "streams: {users: {write_mode: append_dedup, primary_key: id, remove_stale: {removal: hard}}}\n"
    (folder / "pipeline.yaml").write_text(PIPELINE + streams)
    ran = cli("sync", "pipeline.yaml", "--dry-run")

    assert ran.lines[-2:] == [
        "users: rows that the source no longer has would be deleted after a complete read",
        "nothing was written",
    ]
    assert not (folder / "tables").exists()


def test_it_says_what_was_read_before_unless_the_sync_is_forced(cli: CommandLine, folder: Path) -> None:
    path = folder / "pipeline.yaml"
    path.write_text(f"{PIPELINE}streams: [users]\nskip_redundant_runs: {{}}\n{LOG}")
    pipeline = Pipeline.load(path)
    assert SyncRunner(pipeline, find_source(str(folder / "shop.py")), workers=Workers(run_inline, 1)).run().ok
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    ran = cli("sync", "pipeline.yaml", "--dry-run")
    forced = cli("sync", "pipeline.yaml", "--dry-run", "--force-rerun")

    assert [line.partition(",")[0] for line in ran.lines] == ["users: redundant", "nothing was written"]
    assert forced.lines == ["users: full_refresh, overwrite, from its start", "  whole stream", "nothing was written"]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path in before} == before


def test_a_sync_that_is_redundant_starts_no_spark_and_succeeds(cli: CommandLine, folder: Path) -> None:
    path = folder / "pipeline.yaml"
    path.write_text(f"{PIPELINE}streams: [users]\nskip_redundant_runs: {{}}\n{LOG}")
    pipeline = Pipeline.load(path)
    assert SyncRunner(pipeline, find_source(str(folder / "shop.py")), workers=Workers(run_inline, 1)).run().ok

    ran = cli("sync", "pipeline.yaml", "--report", "report.json")
    report = orjson.loads((folder / "report.json").read_bytes())

    assert ran.code == 0
    assert any(line.startswith("users: ") and "--force-rerun reads it again" in line for line in ran.lines)
    assert (report["status"], report["spark"], report["streams"][0]["status"]) == ("done", None, "redundant")


def test_a_table_whose_stream_the_source_has_no_more_is_named(cli: CommandLine, folder: Path) -> None:
    path = folder / "pipeline.yaml"
    path.write_text(f"{PIPELINE}streams: [users]\nspark: {{start: never}}\n")
    before = cli("sync", "pipeline.yaml")
    (folder / "renamed.py").write_text(SHOP.replace("Users", "People"))
    path.write_text(path.read_text().replace("shop.py", "renamed.py").replace("[users]", "[people]"))

    planned, ran = cli("plan", "pipeline.yaml"), cli("sync", "pipeline.yaml")

    note = "users: the source does not list this stream"
    assert (before.code, before.stderr.count(note)) == (0, 0)
    assert [line.partition(";")[0] for line in planned.lines[-2:]] == [note, "nothing was written"]
    assert (ran.code, ran.stderr.count(note)) == (0, 1)


def test_a_history_alone_belongs_to_its_stream_while_the_source_has_that(cli: CommandLine, folder: Path) -> None:
    keyed = '    primary_key = ("id",)\n    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}\n'
    (folder / "shop.py").write_text(SHOP.replace("(PagedStream):\n", f"(PagedStream):\n{keyed}"))
    (folder / "renamed.py").write_text((folder / "shop.py").read_text().replace("Users", "People"))
    path = folder / "pipeline.yaml"
    path.write_text(
        f"{PIPELINE}streams: {{users: {{write_mode: append_dedup, history: true}}}}\nspark: {{start: never}}\n"
    )
    before = cli("sync", "pipeline.yaml")
    (folder / "tables" / "users").rename(folder / "users")

    planned = cli("plan", "pipeline.yaml")
    path.write_text(path.read_text().replace("shop.py", "renamed.py").replace("users:", "people:"))
    renamed = cli("plan", "pipeline.yaml")

    note = "users_history: the source does not list this stream"
    assert (before.code, [line for line in planned.lines if note in line]) == (0, [])
    assert [line.partition(";")[0] for line in renamed.lines if note in line] == [note]
