"""The edits of a state, on cursors of all kinds."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import DatetimeCursor
from cdk.lake.admin.edits import rewound
from cdk.lake.delta.table_state import TableState
from cdk.state.position import Checkpoint
from cdk.state.slice import WHOLE
from cdk.state.wire import decode
from cdk.streams.datetime_cursor import Clamping
from tests.samples import DAY0, Orders

CURSORS = {
    "days": DatetimeCursor("updated_at", start=DAY0, clamping=Clamping("DAY")),
    "weeks": DatetimeCursor("updated_at", start=DAY0, clamping=Clamping("WEEK")),
    "months": DatetimeCursor("updated_at", start=DAY0, clamping=Clamping("MONTH")),
    "dates": DatetimeCursor("updated_at", start=DAY0, formats="%Y-%m-%d"),
    "minutes": DatetimeCursor("updated_at", start=DAY0, formats="%Y-%m-%d %H:%M"),
    "calendar months": DatetimeCursor("updated_at", start=DAY0, formats="%Y-%m"),
    "days of another spelling": DatetimeCursor("updated_at", start=DAY0, formats="%m/%d/%Y"),
    "seconds": DatetimeCursor("updated_at", start=DAY0, formats="%s"),
}
TIMES = st.datetimes(datetime(2024, 1, 1), datetime(2024, 11, 30), timezones=st.just(UTC))  # noqa: DTZ001 - see timezones


@pytest.mark.parametrize("kind", CURSORS)
@given(TIMES, TIMES)
def test_a_range_that_is_read_again_is_rounded_outwards(kind: str, one: datetime, other: datetime) -> None:
    stream, low, high = Orders(), min(one, other), max(one, other)
    stream.cursor = cursor = CURSORS[kind]
    saved = TableState(
        "incremental", "append", complete=True, state={"updated_at": cursor.write(datetime(2025, 6, 1, tzinfo=UTC))}
    )
    if low == high:
        return

    position = decode(rewound(saved, stream, low.isoformat(), until=high.isoformat()).saved.state).positions[WHOLE]

    assert isinstance(position, Checkpoint)
    assert position.resume is not None
    start, end = cursor.timestamp(position.resume.through), cursor.timestamp(position.resume.open[0].window.start)
    assert start is not None
    assert end is not None
    assert start <= low < high <= end
    # Only what a window cannot begin with is rounded.
    assert kind in {"days", "weeks", "months"} or position.resume.through == cursor.write(low)
    # The next sync reads just this range: windows cover it without a gap at either end.
    windows = list(cursor.windows(position.resume.through, end, upto=end.isoformat(), again=False))
    assert cursor.timestamp(windows[0].start) == start
    assert cursor.timestamp(windows[-1].until) == end
