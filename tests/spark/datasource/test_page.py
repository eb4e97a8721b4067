"""The page about notebooks does what it says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.shop.api import serving
from connectors.shop.backend import Backend
from tests.docs.page import DOCS, play

pytestmark = pytest.mark.spark

# Of Spark's usual 200 partitions after a shuffle, all but one would be empty: a quarter of the page's processor time.
_SHUFFLE = "spark.sql.shuffle.partitions"


@pytest.fixture
def _few_partitions(session: SparkSession) -> Iterator[None]:
    usual = session.conf.get(_SHUFFLE)
    session.conf.set(_SHUFFLE, 1)
    yield
    assert usual is not None
    session.conf.set(_SHUFFLE, usual)


@pytest.mark.usefixtures("_few_partitions")
def test_the_page_about_notebooks_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(Backend()) as address:
        play(DOCS / "how-to" / "run-from-a-notebook.md", tmp_path, address)
