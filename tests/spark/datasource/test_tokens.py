"""Frames of an API whose refresh tokens work once: they are planned in one process, and many tasks read at once."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import InputPartition

from cdk import ConfigError, CredentialsError, Source
from cdk.spark.datasource.filter_pushdown import BatchReader
from cdk.spark.datasource.source import CdkDataSource
from cdk.spark.datasource.streaming import StreamReader
from tests.spark.single_use import ALL, FIRST, Items, Login, config, manifest, serving

TOKENS = "-of-the-server"


class OneKind(Source):
    """A source that a name finds: this module has no other."""

    stream_classes = (Items,)
    config_schema = {  # noqa: RUF012 - as an author writes it
        "type": "object",
        "properties": {"refresh_token": {"type": "string", "airbyte_secret": True}},
    }


def options(kind: str, folder: Path, address: str, **more: str) -> dict[str, str]:
    """The options of a frame; its config is text unless `more` says otherwise."""
    (folder / "manifest.yaml").write_text(json.dumps(manifest()))
    source = {"manifest": str(folder / "manifest.yaml")} if kind == "manifest" else {"connector": __name__}
    text = {} if "config_file" in more else {"secret_config": json.dumps(config(address))}
    return {**source, **text, "stream": "items", "concurrency": "6", **more}


def pickled(value: Any) -> bytes:
    return cloudpickle.dumps(value)  # type: ignore[no-any-return, no-untyped-call] # as Spark has it


def sent(value: Any) -> Any:
    """A value as Spark brings it to another process."""
    return cloudpickle.loads(pickled(value))


def registered(given: Mapping[str, str]) -> CdkDataSource:
    """The source as it is registered where six tasks run at once."""
    source = type("CdkDataSource", (CdkDataSource,), {"tasks": 6})
    made: CdkDataSource = source(dict(given))
    return made


class Frame:
    """A frame as Spark makes it: the source travels to the process that plans, its reader to that of each task."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.source: CdkDataSource = sent(registered(given))

    def planned(self) -> tuple[BatchReader, list[InputPartition]]:
        reader = self.source.reader(self.source.schema())
        return sent(reader), sent(reader.partitions())

    def ids(self) -> list[int]:
        """Read the frame with as many tasks at once as it has partitions."""
        return read(*self.planned())


def read(reader: Any, partitions: list[InputPartition]) -> list[int]:
    def task(partition: InputPartition) -> list[int]:
        return [id for batch in sent(reader).read(partition) for id in batch["id"].to_pylist()]

    with ThreadPoolExecutor(len(partitions)) as tasks:
        return sorted(id for ids in tasks.map(task, partitions) for id in ids)


KINDS = ["manifest", "python"]


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_many_tasks_need_one_token_and_the_next_ones_go_on_with_it(kind: str, tmp_path: Path) -> None:
    with serving(Login()) as login:
        given = options(kind, tmp_path, login.address, target=str(tmp_path / "lake"))
        assert [Frame(given).ids() for _ in range(2)] == [ALL, ALL]
        assert (login.calls, login.spent) == (1, 0)

    (kept,) = (tmp_path / "lake" / "_cdk" / "tokens").iterdir()
    assert TOKENS not in kept.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_that_works_once_ends_a_frame_that_takes_longer_and_is_not_used_twice(
    kind: str, tmp_path: Path
) -> None:
    with serving(Login(life=0)) as login:
        given = options(kind, tmp_path, login.address, target=str(tmp_path / "lake"))
        for calls in (1, 2):
            with pytest.raises(CredentialsError, match="load the data frame again"):
                Frame(given).ids()
            assert (login.calls, login.spent) == (calls, 0)
        login.life = 3600
        assert Frame(given).ids() == ALL

    assert (login.calls, login.spent) == (3, 0)


def test_a_token_that_the_api_refuses_early_is_not_replaced_by_tasks(tmp_path: Path) -> None:
    with serving(Login(uses=3)) as login:
        given = options("manifest", tmp_path, login.address, target=str(tmp_path / "lake"))
        with pytest.raises(CredentialsError, match="rejected the access token before it expired"):
            Frame(given).ids()

    assert (login.calls, login.spent) == (1, 0)


@pytest.mark.parametrize("world", [{"life": 0}, {"uses": 5}])
def test_tasks_replace_a_token_whose_refresh_token_may_be_used_again(world: dict[str, Any], tmp_path: Path) -> None:
    with serving(Login(single_use=False, **world)) as login:
        assert Frame(options("python", tmp_path, login.address)).ids() == ALL

    assert login.spent == 0


@pytest.mark.parametrize("name", ["", "config.yaml", "variables.json"])
def test_a_token_that_works_once_is_not_used_where_the_next_one_has_no_place(name: str, tmp_path: Path) -> None:
    with serving(Login()) as login:
        more = {}
        if name:
            more["config_file"] = str(tmp_path / name)
            (tmp_path / name).write_text(json.dumps({**config(login.address), "note": "${HOME}"}))
        with pytest.raises(ConfigError, match=r"nowhere to store the next one: .*target.* not been used") as refused:
            Frame(options("manifest", tmp_path, login.address, **more)).ids()

    assert name in str(refused.value)
    assert login.calls == 0


def test_a_token_that_the_server_replaces_unasked_is_missed_aloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Login()) as login:
        assert Frame(options("python", tmp_path, login.address)).ids() == ALL

    errors = capsys.readouterr().err
    assert "the new refresh token cannot be stored" in errors
    assert "option target" in errors
    assert TOKENS not in errors


def test_the_file_of_the_config_gets_the_new_token_and_a_frame_that_waits_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with serving(Login(life=0)) as login:
        file.write_text(json.dumps(config(login.address)))
        given = options("manifest", tmp_path, login.address, config_file=str(file))
        waiting = Frame(given)
        with pytest.raises(CredentialsError):
            Frame(given).ids()
        login.life = 3600
        assert waiting.ids() == ALL
        assert (login.calls, login.spent) == (2, 0)

    assert json.loads(file.read_text())["refresh_token"] == login.refresh != FIRST


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_spark_may_show_has_a_token(kind: str, tmp_path: Path) -> None:
    with serving(Login()) as login:
        frame = Frame(options(kind, tmp_path, login.address, target=str(tmp_path / "lake")))
        reader, partitions = frame.planned()

    shown = repr((frame.source, reader, vars(reader), partitions))
    assert str(len(partitions)) == "6"
    assert not any(secret in shown for secret in (TOKENS, FIRST))
    # What travels has the token for a while, and never what gets others.
    travels = pickled(partitions)
    assert b"access-token-1" in travels
    assert b"refresh-token-1" not in travels + pickled(reader)


def test_errors_of_tasks_hide_the_token_that_they_were_given(tmp_path: Path) -> None:
    with serving(Login()) as login:
        reader, partitions = Frame(options("python", tmp_path, login.address, target=str(tmp_path))).planned()
        login.left.clear()
        with pytest.raises(CredentialsError) as refused:
            read(reader, partitions)
        assert TOKENS not in str(refused.value)


@pytest.mark.parametrize("more", [{"target": "lake"}, {}])
def test_batches_of_a_query_go_on_with_the_refresh_token_of_the_last_one(more: dict[str, str], tmp_path: Path) -> None:
    given = {name: str(tmp_path / value) for name, value in more.items()}
    with serving(Login(life=0)) as login:
        source = registered(options("python", tmp_path, login.address, slices_per_batch="2", **given))
        reader = source.streamReader(source.schema())
        assert isinstance(reader, StreamReader)
        at = reader.initialOffset()
        for calls in (1, 2, 3):
            end = reader.latestOffset(at, reader.getDefaultReadLimit())
            assert len(reader.partitions(at, end)) == 2
            assert (login.calls, login.spent) == (calls, 0)
            at = end
