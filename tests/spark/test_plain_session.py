"""A session that somebody else made, whose Python workers are another Python than the program's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdk.spark.cluster.java_home import java_home

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
sys.path[:0] = [ROOT]
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
before = dict(vars(spark.sparkContext)["environment"]), spark.sparkContext.pythonExec

from cdk.spark import Pipeline, SyncRunner, register
from cdk.sources.discovery import find_source

register(spark)
frame = spark.read.format("cdk").option("connector", "figures.py").option("stream", "figures").load()
print(sorted(row.id for row in frame.collect()))

source = {"connector": "figures.py"}
pipeline = Pipeline.model_validate({"name": "n", "source": source, "target": {"path": "lake"}})
print(SyncRunner(pipeline, find_source("figures.py")).run().ok)
print((dict(spark.sparkContext.environment), spark.sparkContext.pythonExec) == before)
"""
FIGURES = """
from cdk import Page, PagedStream


class Figures(PagedStream):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}

    def read_page(self, slice, token):
        return Page([{"id": 1}, {"id": 2}], None)
"""


def test_workers_of_a_plain_session_are_this_python_and_find_the_kit(tmp_path: Path) -> None:
    (tmp_path / "figures.py").write_text(FIGURES)
    (tmp_path / "program.py").write_text(f"ROOT = {str(ROOT)!r}\n{PROGRAM}")
    (tmp_path / "bin").mkdir()
    other = tmp_path / "bin" / "python3"
    other.write_text("#!/bin/sh\necho no such Python >&2\nexit 1\n")
    other.chmod(0o755)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON"))}
    environ |= {"PATH": f"{other.parent}:/usr/bin:/bin", "JAVA_HOME": str(java_home(os.environ))}

    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )

    assert done.stdout.splitlines() == ["[1, 2]", "True", "True"], done.stderr[-3000:]
