"""What is known of a pipeline's secrets before anything is said of it."""

from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.shop_pipeline import put_shop

SHOP = """
from cdk import Source, Stream
class Orders(Stream):
    def read_records(self, slice):
        yield {}
class Shop(Source):
    stream_classes = [Orders]
"""


def test_the_path_of_a_target_is_shown_that_a_variable_gives(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put_shop(tmp_path, SHOP, monkeypatch) / "pipeline.yaml"
    path.write_text(path.read_text().replace("path: tables", "path: '${TABLES}/${API_KEY}'"))
    (tmp_path / "lake").mkdir()
    monkeypatch.setenv("TABLES", str(tmp_path / "lake"))
    (tmp_path / "lake" / "hunter2").write_text("no folder")

    ran = cli("sync", "pipeline.yaml")

    assert (ran.code, ran.stderr.splitlines()[-1]) == (
        1,
        f"Error: {tmp_path}/lake/****/_cdk/shop.lock: the target cannot be written: Not a directory",
    )
