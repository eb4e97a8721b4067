"""A sync on a cluster: code that is installed nowhere reaches the executors, and one of them may die."""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from connectors.shop.api import serving
from connectors.shop.backend import Backend
from tests.spark.kill import LATENCY, SIZES, Trial

pytestmark = pytest.mark.spark

CLUSTER = "local-cluster[2,1,1024]"
FAR_AWAY = """
from cdk import Page, PagedStream
from far_away.pages import rows


class Numbers(PagedStream):
    primary_key = "n"
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    def read_page(self, slice, token):
        page = (token or {}).get("page", 0)
        return Page(rows(page), {"page": page + 1} if page < 4 else None)
"""
PAGES = """
def rows(page):
    return [{"n": page * 10 + i} for i in range(10)]
"""
PIPELINE = f"""
name: far
source: {{connector: far_away}}
target: {{path: tables}}
spark: {{master: "{CLUSTER}"}}
"""


def test_a_connector_that_is_not_installed_reaches_the_executors(tmp_path: Path) -> None:
    package = tmp_path / "far_away"
    package.mkdir()
    (package / "__init__.py").write_text(FAR_AWAY)
    (package / "pages.py").write_text(PAGES)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)

    run = subprocess.run(
        [sys.executable, "-m", "cdk", "sync", "pipeline.yaml"],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    table = pq.read_table(DeltaTable(str(tmp_path / "tables" / "numbers")).file_uris())
    assert sorted(table["n"].to_pylist()) == list(range(50))


def test_an_executor_killed_while_it_reads_costs_no_row_and_doubles_none(tmp_path: Path) -> None:
    backend = Backend(SIZES)
    with serving(backend, latency=LATENCY) as address:
        (tmp_path / "cluster").mkdir()
        (tmp_path / "local").mkdir()
        trial = Trial(tmp_path / "cluster", backend, address, master=CLUSTER)
        kill = trial.sync_killed("executor", 40)
        undisturbed = Trial(tmp_path / "local", backend, address)
        undisturbed.sync()

        assert kill.survived
        trial.compare(undisturbed)
