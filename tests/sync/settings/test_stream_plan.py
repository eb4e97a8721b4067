from collections.abc import Mapping
from pathlib import Path

import pytest

from cdk.base.errors import ConfigError
from cdk.lake.storage.folder import LocalFolder
from cdk.sync.settings.pipeline_file import StreamOptions
from cdk.sync.settings.stream_plan import plan_stream
from tests.samples import Orders

CONTROLS = ["a\nb", "a\\b", "a\tb", "\0", "a\r", "a\x7fb", "a\x85b", "a\ud800"]


@pytest.mark.parametrize("name", ["_delta_log", "_cdk", "_cdk_state", "..", "a/b", " ", *CONTROLS])
@pytest.mark.parametrize("place", ["name", "namespace"])
def test_a_table_lies_in_no_folder_that_means_something_else(tmp_path: Path, name: str, place: str) -> None:
    stream = Orders()
    setattr(stream, place, name)

    with pytest.raises(ConfigError, match="a table cannot lie in a folder called"):
        plan_stream(stream, StreamOptions(), LocalFolder(tmp_path))


def test_a_stream_without_a_name_is_refused(tmp_path: Path) -> None:
    stream = Orders()
    stream.name = ""

    with pytest.raises(ConfigError, match="a table cannot lie in a folder called ''"):
        plan_stream(stream, StreamOptions(), LocalFolder(tmp_path))


@pytest.mark.parametrize("name", ["x" * 300, "é" * 130])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path, name: str) -> None:
    stream = Orders()
    stream.name = name

    with pytest.raises(ConfigError, match=r"whose name has \d+ bytes, expected at most 247; rename the stream"):
        plan_stream(stream, StreamOptions(), LocalFolder(tmp_path))


@pytest.mark.parametrize(
    ("key", "options", "write_mode"),
    [
        ("id", {}, "append_dedup"),
        ("", {}, "append"),
        ("id", {"write_mode": "append"}, "append"),
        ("id", {"sync_mode": "full_refresh"}, "overwrite"),
    ],
)
def test_a_pipeline_may_have_incremental_streams_merge_where_they_have_a_key(
    tmp_path: Path, key: str, options: Mapping[str, str], write_mode: str
) -> None:
    stream = Orders()
    stream.primary_key = key

    plan = plan_stream(stream, StreamOptions.model_validate(options), LocalFolder(tmp_path), "append_dedup")

    assert plan.write_mode == write_mode


def test_the_longest_name_is_that_of_a_folder_with_its_history(tmp_path: Path) -> None:
    stream = Orders()
    stream.name, stream.primary_key = "x" * 247, "id"
    plan = plan_stream(stream, StreamOptions(write_mode="append_dedup", history=True), LocalFolder(tmp_path))

    assert plan.history is not None
    (tmp_path / Path(str(plan.history)).name).mkdir()
