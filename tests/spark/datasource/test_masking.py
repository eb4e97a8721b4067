"""Partitions that a secret of the config identifies, in what planners and tasks of Spark write and are told to read."""

import json
from collections.abc import Iterable

import pytest

from cdk import ConfigError, Page, PagedStream, Partition, Slice, Source, list_partitions
from cdk.base.logs import logger
from cdk.spark.datasource.filter_pushdown import BatchReader
from cdk.spark.datasource.source import CdkDataSource
from cdk.streams.page import Token

SECRET = "hunter2-hunter2"


class Accounts(PagedStream):
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}  # noqa: RUF012 - as an author writes it

    def partitions(self) -> Iterable[Partition]:
        logger.warning("planning %s", self.config["account"])
        print("with", self.config["account"])
        return list_partitions("account", [self.config["account"], "other"])

    def read_page(self, slice: Slice, token: Token | None) -> Page:  # noqa: ARG002 - there is one page
        return Page([{"id": slice.partition["account"]}], None, warning=f"{slice.partition['account']} is odd")


class Named(Source):
    stream_classes = (Accounts,)
    config_schema = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {"account": {"type": "string", "airbyte_secret": True}},
    }


def source(**options: str) -> CdkDataSource:
    config = json.dumps({"account": SECRET})
    return CdkDataSource({"connector": __name__, "stream": "accounts", "secret_config": config, **options})


def reader(**options: str) -> BatchReader:
    made = source(**options)
    return made.reader(made.schema())


def test_what_is_logged_and_printed_shows_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    frame = reader()
    rows = [id for part in frame.partitions() for batch in frame.read(part) for id in batch["id"].to_pylist()]

    out, errors = capsys.readouterr()
    assert sorted(rows) == [SECRET, "other"]
    assert "planning ****\nwith ****\n" in errors
    assert "accounts: **** is odd" in errors
    assert SECRET not in out + errors


def test_a_state_that_no_longer_fits_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    done = {"__ab_full_refresh_sync_complete": True}
    frame = reader(state=json.dumps({"states": [{"partition": {"town": "a"}, "cursor": done}]}))

    assert len([slice for part in frame.partitions() for slice in part.value.slices]) == 2
    assert "the state has partitions by 'town', but the source's partitions now have 'account'" in (
        capsys.readouterr().err
    )


def test_a_state_with_a_secret_is_not_shown_in_the_plan_of_a_streaming_query() -> None:
    state = json.dumps({"states": [{"partition": {"account": SECRET}, "cursor": {"page": 1}}]})
    streaming = source(state=state)

    with pytest.raises(ConfigError, match="option state: holds a secret of the config, and Spark shows") as refused:
        streaming.streamReader(streaming.schema())

    assert SECRET not in str(refused.value)
    marked = source(state=state.replace(SECRET, "<secret account plain>"))
    assert SECRET not in json.dumps(marked.streamReader(marked.schema()).initialOffset())


def test_a_wrong_state_is_not_shown() -> None:
    with pytest.raises(Exception, match="expected what a state message holds in `stream_state`") as refused:
        source(state=json.dumps({"stream_descriptor": {"name": "x"}, "stream_state": {"account": SECRET}}))

    assert SECRET not in str(refused.value)
