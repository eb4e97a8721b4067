"""What is known of a pipeline's secrets before anything is said of it."""

from pathlib import Path

import pytest

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.cli.pipeline_from_file import known_source
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


def test_what_a_config_lacks_is_left_out_and_no_secret_is_looked_up_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put_shop(tmp_path, SHOP, monkeypatch) / "pipeline.yaml"
    monkeypatch.setenv("SHOP", "toys")
    config = """
        url: 'https://${HOST_THAT_IS_NOT_SET}'
        shop: '${SHOP}'
        region: '${REGION_THAT_IS_NOT_SET:-eu}'
        login: {user: us, password: '${command:touch looked-up}'}
        shops: ['${SHOP}', '${SHOP_THAT_IS_NOT_SET}']
    """
    path.write_text(f"name: shop\nsource:\n    connector: shop.py\n    config: {config}\ntarget: {{path: tables}}\n")

    _, known = known_source(path, Secrets(), trusted=False)

    assert known == {"shop": "toys", "region": "eu", "login": {"user": "us"}, "shops": ["toys"]}
    assert not (tmp_path / "looked-up").exists()
    path.write_text(path.read_text().replace("path: tables", "path: '${LAKE_THAT_IS_NOT_SET}'"))
    with pytest.raises(ConfigError, match="variable LAKE_THAT_IS_NOT_SET is not set"):
        known_source(path, Secrets(), trusted=False)
