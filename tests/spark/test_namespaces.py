"""Streams of one name in several namespaces: each has its table, its state and its options."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cdk import ConfigError, Json, Page, PagedStream, Slice
from cdk.base.task_map import run_inline
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.spark.given_source import Given


class Users(PagedStream):
    primary_key = "id"
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}  # noqa: RUF012

    def __init__(self, namespace: str | None, first: int) -> None:
        super().__init__({})
        self.namespace, self.first = namespace, first

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
        return Page([{"id": self.first}, {"id": self.first + 1}], None)


STREAMS = (Users("north", 10), Users("south", 20), Users(None, 30))


def runner(folder: Path, options: Mapping[str, StreamOptions] | None = None) -> SyncRunner:
    pipeline = Pipeline(
        name="towns", source=SourceOptions(connector="given"), target=TargetOptions(path=str(folder)), streams=options
    )
    return SyncRunner(pipeline, Given(STREAMS), workers=Workers(run_inline, 2))


def ids(folder: Path) -> list[int]:
    return sorted(pq.read_table(DeltaTable(str(folder)).file_uris())["id"].to_pylist())


def test_each_lands_in_a_table_of_its_own(tmp_path: Path) -> None:
    runner(tmp_path).run()
    result = runner(tmp_path).run()

    assert [(report.name, report.written) for report in result.streams] == [
        ("north.users", 2),
        ("south.users", 2),
        ("users", 2),
    ]
    assert [ids(tmp_path / name / "users") for name in ("north", "south")] == [[10, 11], [20, 21]]
    assert ids(tmp_path / "users") == [30, 31]


def test_a_pipeline_names_them_with_their_namespace(tmp_path: Path) -> None:
    options = {"south.users": StreamOptions(write_mode="append"), "users": StreamOptions(write_mode="append_dedup")}

    for _ in range(2):
        assert [report.name for report in runner(tmp_path, options).run().streams] == ["south.users", "users"]

    assert ids(tmp_path / "south" / "users") == [20, 20, 21, 21]
    assert ids(tmp_path / "users") == [30, 31]


def test_a_name_that_two_namespaces_have_is_asked_back(tmp_path: Path) -> None:
    pipeline = Pipeline(
        name="towns",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(tmp_path)),
        streams={"users": StreamOptions()},
    )

    with pytest.raises(ConfigError, match=r"found 'users', which is 'north\.users' and 'south\.users'; name one"):
        SyncRunner(pipeline, Given(STREAMS[:2]), workers=Workers(run_inline, 1)).run()
