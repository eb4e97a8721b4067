"""What Python workers begin with."""

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


def parent_and_modules(_: int) -> tuple[str, bool]:
    """The command line of the process that has forked this one, and whether the code of tasks is imported."""
    command = Path(f"/proc/{os.getppid()}/cmdline").read_text(encoding="utf-8")
    return command.replace("\0", " ").strip(), "cdk.sync.tasks.bundle_task" in sys.modules


@pytest.mark.spark
def test_workers_are_forks_of_a_process_that_has_imported_the_kit(session: SparkSession) -> None:
    ((command, imported),) = session.sparkContext.parallelize([0], 1).map(parent_and_modules).collect()

    assert "-m cdk.spark.cluster.warm_daemon" in command
    assert imported
