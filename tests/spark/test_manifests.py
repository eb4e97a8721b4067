"""Manifests on a real Spark session: their streams travel to the workers and go on from the state in their tables."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable

from cdk.cli.app import run
from connectors.shop.api import serving
from connectors.shop.backend import Backend, Sizes
from tests.docs.page import BLOCK, DOCS

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("session")]


@pytest.fixture
def address() -> Iterator[str]:
    with serving(Backend(Sizes(customers=12))) as address:
        yield address


def manifest() -> str:
    """The manifest of the page about manifests."""
    page = (DOCS / "how-to" / "use-a-manifest.md").read_text()
    return next(str(text) for kind, text in BLOCK.findall(page) if kind == "yaml" and text.startswith("# shop.yaml"))


def ids(folder: Path) -> list[int | str]:
    return sorted(pq.read_table(DeltaTable(str(folder)).file_uris())["id"].to_pylist())


def test_a_manifest_is_synced_once_and_whole_and_goes_on(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.yaml").write_text(manifest())
    pipeline = {
        "name": "shop",
        "source": {"manifest": "shop.yaml", "config": {"base_url": address}},
        "target": {"path": "tables"},
        "checkpoint_interval": "0s",
    }
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(pipeline))

    assert run(["sync", "pipeline.yaml"]) == 0
    first = ids(tmp_path / "tables" / "visits")
    assert run(["sync", "pipeline.yaml"]) == 0

    assert len(first) == len(set(first)) == 12 * 60
    assert ids(tmp_path / "tables" / "visits") == first
    assert len(ids(tmp_path / "tables" / "customers")) == 12
