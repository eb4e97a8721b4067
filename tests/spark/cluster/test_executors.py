"""Streams that cannot travel to executors, and tasks whose process dies."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdk.base.errors import ConfigError
from cdk.sources.discovery import find_source
from cdk.spark.cluster.executors import check_picklable
from cdk.sync.reports.stream_report import Status
from tests.sync.loop.test_bundles import PARTS, Parts, count, sync

CONNECTOR = """
from cdk import Stream

NUMBERS = (n for n in range(3))


class Numbers(Stream):
    def read_records(self, slice):
        yield {"id": next(NUMBERS)}
"""


def test_a_stream_whose_module_holds_what_cannot_travel_is_refused_by_itself(tmp_path: Path) -> None:
    (tmp_path / "numbers_of_a_generator.py").write_text(CONNECTOR)
    (stream,) = find_source(str(tmp_path / "numbers_of_a_generator.py")).streams({})

    with pytest.raises(ConfigError, match=r"cannot pickle 'generator' object.*a global of its module"):
        check_picklable(stream)


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
