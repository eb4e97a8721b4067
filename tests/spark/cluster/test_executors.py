"""Tasks on Spark's executors whose process dies."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdk.sync.reports.stream_report import Status
from tests.sync.loop.test_bundles import PARTS, Parts, count, sync


@pytest.mark.spark
def test_a_worker_that_kills_itself_ends_its_stream_by_name(
    session: SparkSession,  # noqa: ARG001 - it is the one that runs
    tmp_path: Path,
) -> None:
    result = sync(tmp_path, [Parts("good", frozenset()), Parts("bad", frozenset({3}), kills=True)], None)

    good, bad = result.streams
    assert good.status is Status.DONE
    assert count(tmp_path, "good") == 2 * PARTS
    assert bad.failure is not None
    assert '{"part":3}: the process that reads it died' in bad.failure.message
