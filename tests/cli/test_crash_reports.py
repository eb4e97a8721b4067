"""`--crash-report`: which errors of `sync` and `read` leave a file, and that nothing secret is in it."""

from pathlib import Path
from textwrap import dedent

import pytest

from cdk.base.secret_masking import spellings
from tests.cli.conftest import CommandLine
from tests.cli.shop_pipeline import PIPELINE, SECRET, put_shop

SHOP = dedent("""
    from base64 import b64encode
    from cdk import ConfigError, Page, PagedStream, Partition, Source, Stream

    class Orders(PagedStream):
        def read_page(self, slice, token):
            return Page([{"id": n} for n in range(3)], None)

    class Reading(Stream):
        def read_records(self, slice):
            sent = b64encode(f"user:{self.config['api_key']}".encode())
            raise KeyError(self.config["api_key"])
            yield

    class Planning(Stream):
        def partitions(self):
            first = self.config["api_key"]
            return first.nothing
        def read_records(self, slice):
            return []

    class Refused(Stream):
        def read_records(self, slice):
            raise ConfigError("the key is wrong")
            yield

    class Shop(Source):
        stream_classes = [Orders, Reading, Planning, Refused]
        config_schema = {
            "type": "object",
            "properties": {"api_key": {"type": "string", "airbyte_secret": True}},
        }
""")
FILES = ["crash-shop-planning.txt", "crash-shop-reading.txt"]


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put_shop(tmp_path, SHOP, monkeypatch)
    (tmp_path / "pipeline.yaml").write_text(f"{PIPELINE}\nspark: {{start: never}}\n")
    return tmp_path


def reports(folder: Path) -> dict[str, str]:
    """The crash reports of a folder, none of which has a secret."""
    texts = {path.name: path.read_text() for path in sorted(folder.glob("*"))}
    assert [name for name, text in texts.items() for form in spellings(SECRET).values() if form in text] == []
    return texts


def test_each_stream_with_an_unexpected_error_leaves_a_report(cli: CommandLine, shop: Path) -> None:
    ran = cli("sync", "pipeline.yaml", "--crash-report", "crashes", "-q")

    texts = reports(shop / "crashes")
    assert (ran.code, list(texts)) == (1, FILES)
    assert "reading: crash report: crashes/crash-shop-reading.txt" in ran.stderr
    assert "    sent = b'****'\n" in texts["crash-shop-reading.txt"] or "****" in texts["crash-shop-reading.txt"]
    assert "in Reading.read_records\n" in texts["crash-shop-reading.txt"]
    assert "AttributeError: 'str' object has no attribute 'nothing'" in texts["crash-shop-planning.txt"]
    assert "config: dict('api_key': ****)" in texts["crash-shop-planning.txt"]


def test_read_leaves_the_same_reports(cli: CommandLine, shop: Path) -> None:
    (shop / "config.json").write_text(f'{{"api_key": "{SECRET}"}}')

    ran = cli("read", "--connector", "shop.py", "--config", "config.json", "--crash-report", "crashes")

    assert (ran.code, list(reports(shop / "crashes"))) == (1, FILES)
    assert "crash report: crashes/crash-shop-reading.txt" in "\n".join(ran.lines)


def test_without_the_option_there_is_none(cli: CommandLine, shop: Path) -> None:
    before = set(shop.iterdir())
    cli("sync", "pipeline.yaml", "--stream", "reading", "-q")

    assert {path.name for path in set(shop.iterdir()) - before} <= {"tables", "__pycache__"}


def test_a_folder_that_cannot_be_written_is_a_warning(cli: CommandLine, shop: Path) -> None:
    (shop / "file").write_text("")

    ran = cli("sync", "pipeline.yaml", "--stream", "reading", "--crash-report", "file/crashes", "-q")

    assert ran.code == 1
    assert "reading: no crash report could be written: " in ran.stderr
