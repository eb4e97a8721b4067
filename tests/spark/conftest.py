"""A target in an S3 store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdk.lake.storage.folder import Folder
from cdk.lake.storage.object_store import folder_at
from tests.spark.object_store import ObjectStore, object_store


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def lake(server: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """An empty target in the store, which is well when a test begins."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server.misbehave()
    yield folder_at(f"s3://lake/{tmp_path.name}", server.storage)
    server.misbehave()
