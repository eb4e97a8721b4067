"""The demo shop's API, an empty folder to play a page in, and one Spark session for all of them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdk.spark.pipeline import SparkOptions
from cdk.spark.session import open_session
from connectors.shop.api import serving
from connectors.shop.backend import Backend


@pytest.fixture
def address() -> Iterator[str]:
    """Where a shop of the usual size answers."""
    with serving(Backend()) as address:
        yield address


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "path", sys.path.copy())
    return tmp_path


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that syncs in this process, and programs that ask for one, find."""
    session = open_session("docs", SparkOptions(master="local[2,4]"), tmp_path_factory.mktemp("spark") / "spark.log")
    yield session
    session.stop()
