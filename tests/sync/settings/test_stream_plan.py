from pathlib import Path

import pytest

from cdk.base.errors import ConfigError
from cdk.lake.storage.folder import LocalFolder
from cdk.sync.settings.pipeline_file import StreamOptions
from cdk.sync.settings.stream_plan import plan_stream
from tests.samples import Orders


@pytest.mark.parametrize("name", ["_delta_log", "_cdk", "_cdk_state", "..", "a/b"])
@pytest.mark.parametrize("place", ["name", "namespace"])
def test_a_table_lies_in_no_folder_that_means_something_else(tmp_path: Path, name: str, place: str) -> None:
    stream = Orders()
    setattr(stream, place, name)

    with pytest.raises(ConfigError, match="a table cannot lie in a folder called"):
        plan_stream(stream, StreamOptions(), LocalFolder(tmp_path))
