"""`spark-cdk sync` without a pipeline file: options say what `read` takes, and where the tables go."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
from deltalake import DeltaTable

from cdk.base.secret_masking import Secrets
from cdk.base.values import Json
from cdk.cli.sync.pipeline_from_options import GivenOptions, given_pipeline
from tests.cli.conftest import CommandLine
from tests.cli.shop_pipeline import SECRET

SHOP = dedent("""
    from cdk import CountCursor, Page, PagedStream, Source, Stream

    class Users(PagedStream):
        primary_key = "id"
        schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
        def read_page(self, slice, token):
            n = token["page"] if token else 0
            return Page([{"id": n}], {"page": n + 1} if n < 2 else None)

    class Events(Stream):
        cursor = CountCursor("seq")
        def read_records(self, slice):
            yield {"seq": 1}

    class Shop(Source):
        stream_classes = [Users, Events]
        config_schema = {
            "type": "object",
            "properties": {"api_key": {"type": "string", "airbyte_secret": True}},
            "required": ["api_key"],
        }
""")
GIVEN = ("sync", "--connector", "my shop.py", "--config", "config.json", "--target", "tables")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my shop.py").write_text(SHOP)
    (tmp_path / "config.json").write_text(json.dumps({"api_key": SECRET}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def allowed(*options: str, catalog: str | None = None) -> dict[str, bool]:
    """Which streams may leave their tables without rows."""
    given = GivenOptions(
        connector="my shop.py",
        config=Path("config.json"),
        target="tables",
        catalog=None if catalog is None else Path(catalog),
        allow_empty=options == ("--allow-empty",),
    )
    pipeline, _ = given_pipeline(given, Secrets(), trusted=False)
    streams = pipeline.streams or {}
    return {name: one.remove_stale is not None and one.remove_stale.allow_empty for name, one in streams.items()}


def want(folder: Path, **said: Json) -> None:
    stream = {"name": "users", "json_schema": {}, "supported_sync_modes": ["full_refresh"]}
    item = {"stream": stream, "sync_mode": "full_refresh", **said}
    (folder / "catalog.json").write_text(json.dumps({"streams": [item]}))


def test_options_alone_describe_a_sync(cli: CommandLine) -> None:
    ran = cli(*GIVEN, "--dry-run")

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.lines[:-1] == [
        "users: full_refresh, overwrite, from its start",
        "  whole stream",
        "events: incremental, append, from its start",
        "  [0, …]",
    ]


def test_a_catalog_says_which_streams_and_how(cli: CommandLine, folder: Path) -> None:
    want(folder, destination_sync_mode="append_dedup", primary_key=[["id"]], cursor_field=[])

    ran = cli(*GIVEN, "--catalog", "catalog.json", "--dry-run")

    assert ran.lines[:-1] == ["users: full_refresh, append_dedup, from its start", "  whole stream"]


def test_a_catalog_that_names_no_destination_mode_gets_the_one_a_file_would(cli: CommandLine, folder: Path) -> None:
    want(folder)

    assert cli(*GIVEN, "--catalog", "catalog.json", "--dry-run").lines[0] == (
        "users: full_refresh, overwrite, from its start"
    )


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            {"destination_sync_mode": "update"},
            "found destination_sync_mode update of 'users', expected one of append, ",
        ),
        (
            {"destination_sync_mode": "append_dedup", "primary_key": [["a", "b"]]},
            "found 'a.b' in the primary_key of 'users', expected a field of the record itself",
        ),
    ],
)
def test_a_catalog_that_asks_for_what_no_table_does_is_refused(
    cli: CommandLine, folder: Path, said: dict[str, Json], why: str
) -> None:
    want(folder, **said)

    ran = cli(*GIVEN, "--catalog", "catalog.json", "--dry-run")

    assert ran.code == 1
    assert ran.stderr.startswith(f"Error: catalog.json: {why}")


@pytest.mark.parametrize(
    ("mode", "generations", "means"),
    [
        ("append", (3, 0), {"write_mode": "append"}),
        ("append", (3, 3), {"write_mode": "overwrite", "allow_empty": True}),
        ("overwrite", (3, 3), {"write_mode": "overwrite", "allow_empty": True}),
        (
            "append_dedup",
            (3, 3),
            {"write_mode": "append_dedup", "removal": "hard", "fail_safe_threshold": 100, "allow_empty": True},
        ),
    ],
)
def test_generations_of_a_catalog_decide_what_becomes_of_older_rows(
    folder: Path, mode: str, generations: tuple[int, int], means: dict[str, Json]
) -> None:
    number, least = generations
    want(folder, destination_sync_mode=mode, generation_id=number, minimum_generation_id=least)
    options = GivenOptions(
        connector="my shop.py", target="t", config=folder / "config.json", catalog=folder / "catalog.json"
    )

    pipeline, _ = given_pipeline(options, Secrets(), trusted=False)

    assert pipeline.streams is not None
    stream = pipeline.streams["users"]
    assert (stream.generation_id, stream.minimum_generation_id) == generations
    removal = {} if stream.remove_stale is None else stream.remove_stale.model_dump(exclude_unset=True)
    assert {"write_mode": stream.write_mode, **removal} == means


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "Missing argument 'PIPELINE', or options"),
        (["--connector", "my shop.py"], "Missing option '--target'"),
        (["--connector", "a", "--manifest-path", "m.yaml"], "exclude each other: pass one"),
        (["p.yaml", "--config", "config.json", "--name", "x"], "sets what --config and --name would: pass one"),
    ],
)
def test_what_to_sync_is_said_once(cli: CommandLine, options: list[str], why: str) -> None:
    ran = cli("sync", *options)

    assert ran.code == 2
    assert why in ran.stderr


def test_a_config_that_does_not_fit_is_told_without_its_secrets(cli: CommandLine, folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"api_key": [SECRET]}))

    ran = cli(*GIVEN, "--dry-run")

    assert ran.code == 1
    assert ran.stderr.startswith("Error: config.json: api_key: ")
    assert SECRET not in ran.stderr


def test_a_name_or_a_target_that_cannot_be_is_told_by_its_option(cli: CommandLine) -> None:
    named = cli(*GIVEN, "--name", "a b", "--dry-run")
    placed = cli(*GIVEN[:-1], "ftp://x", "--dry-run")

    assert (named.code, placed.code) == (1, 1)
    assert named.stderr.startswith("Error: --name: ")
    assert placed.stderr.startswith("Error: --target: ")


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_a_sync_goes_on_where_the_one_before_ended(cli: CommandLine, folder: Path) -> None:
    first, again = cli(*GIVEN, "-q"), cli(*GIVEN, "--no-progress")

    assert (first.code, again.code) == (0, 0)
    assert again.lines[-1].startswith("my-shop → tables: ")
    assert DeltaTable(folder / "tables" / "events").to_pyarrow_table().num_rows == 1
    assert DeltaTable(folder / "tables" / "users").to_pyarrow_table().num_rows == 3


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_a_catalogs_generation_is_the_rows_and_an_older_one_writes_nothing(cli: CommandLine, folder: Path) -> None:
    def synced(number: int, least: int) -> tuple[int, list[int]]:
        want(folder, destination_sync_mode="append", generation_id=number, minimum_generation_id=least)
        ran = cli(*GIVEN, "--catalog", "catalog.json", "-q")
        rows = DeltaTable(folder / "tables" / "users").to_pyarrow_table(columns=["_airbyte_generation_id"])
        return ran.code, rows.column(0).to_pylist()

    assert synced(1, 0) == (0, [1, 1, 1])
    assert synced(2, 2) == (0, [2, 2, 2])
    assert synced(2, 2) == (0, [2, 2, 2])
    assert synced(1, 0) == (1, [2, 2, 2])


def test_an_overwrite_may_be_allowed_to_leave_a_table_without_rows(folder: Path) -> None:
    assert allowed() == {}
    assert allowed("--allow-empty") == {"users": True, "events": False}
    want(folder)
    assert allowed("--allow-empty", catalog="catalog.json") == {"users": True}
    want(folder, destination_sync_mode="append")
    assert allowed("--allow-empty", catalog="catalog.json") == {"users": False}


def test_a_source_that_is_empty_now_empties_its_table_where_that_is_allowed(cli: CommandLine, folder: Path) -> None:
    once = [*GIVEN, "--stream", "users", "-q"]
    assert cli(*once).code == 0
    source = folder / "my shop.py"
    source.write_text(source.read_text().replace('return Page([{"id": n}]', "return Page([]"))

    refused = cli(*once)
    assert (refused.code, "--allow-empty" in refused.stderr) == (1, True)
    assert len(DeltaTable("tables/users").to_pyarrow_table()) == 3

    assert cli(*once, "--allow-empty").code == 0
    assert len(DeltaTable("tables/users").to_pyarrow_table()) == 0
