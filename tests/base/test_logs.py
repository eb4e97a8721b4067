"""What the logs say of many errors."""

import logging

import pytest

from cdk import Slice
from cdk.base.errors import FatalError, NotFound
from cdk.engine.read import read
from cdk.state.slice import Partition
from cdk.state.stream_state import StreamState
from cdk.streams.stream import Stream


class Failing(Stream):
    def partitions(self) -> list[Partition]:
        return [Partition.of(n=n) for n in range(100)]

    def read_records(self, slice: Slice) -> list[dict[str, object]]:
        raise NotFound(
            f"GET http://api.test/{slice.partition['n']} answered {404 if slice.partition['n'] != 99 else 410}"
        )


def test_the_errors_of_many_slices_are_counted_by_their_cause(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="cdk"), pytest.raises(FatalError, match="/0 answered 404"):
        list(read(Failing(), StreamState()))

    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert errors[4] == 'failing {"n":4}: GET http://api.test/4 answered 404'
    assert errors[5:] == [
        "failing: 94 further slices failed, too: GET ... answered 404",
        "failing: 1 further slice failed, too: GET ... answered 410",
    ]
    in_full = {record.message for record in caplog.records if "http://api.test/" in record.message}
    assert len(in_full) == 100
