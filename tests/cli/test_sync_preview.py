"""`spark-cdk sync` that only shows what it would read; it starts no Spark."""

from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.conftest import CommandLine

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
PIPELINE = "name: shop\nsource: {connector: shop.py, config: {api_key: hunter2}}\ntarget: {path: tables}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    return tmp_path


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
    assert ran.lines[:4] == [
        "users: full_refresh, overwrite, from its start",
        "  whole stream",
        '{"id":0}',
        '{"id":1}',
    ]
    assert ran.stderr == "events: the source refused ****\n"
    assert not (folder / "tables").exists()


def test_a_pipeline_that_ignores_the_new_state_is_previewed(cli: CommandLine, folder: Path) -> None:
    (folder / "pipeline.yaml").write_text(f"{PIPELINE}state: {{ignore_new_state: true}}\n")

    ran = cli("sync", "pipeline.yaml", "--stream", "users")

    assert (ran.code, ran.lines[-1]) == (0, "nothing was written")
    assert not (folder / "tables").exists()
