"""HostileWorld: an API that gains rows before and during reads, which are interrupted; Hypothesis draws the cases."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from msgspec import Struct

from cdk.base.values import FieldValue, Record, canonical
from cdk.protocol.messages import AirbyteStateMessage
from cdk.rest import Request, Response, Transport
from cdk.rest.http.transport import Offline
from cdk.streams.datetime_cursor import DatetimeCursor
from cdk.streams.source import Source
from cdk.testing.conformance.faults import Failing
from cdk.testing.conformance.subject import Nonconforming, SuiteSubject, listed_json
from cdk.testing.run import Connector, ReadResult, connector, read
from cdk.testing.simulation import MockClock


class Round(Struct, frozen=True):
    """New rows, followed by a read.

    hours: one entry for each new row: how long after the previous row it is dated; 0 is a tie, a negative number a row
    that arrives late, which needs a stream that looks back that far. meanwhile: how many of these rows appear after the
    first request of the read. twice: whether the API returns its last row twice. fails_after: requests until the API
    fails; None: it does not fail. slices: how many are read at once. skew: hours by which the reader's clock is ahead,
    or behind if negative. order: the order of the existing rows, unless the read resumes an interrupted one: 0
    unchanged, 1 reversed, 2 starting from the middle.
    """

    hours: Sequence[int]
    meanwhile: int = 0
    twice: bool = False
    fails_after: int | None = None
    slices: int = 1
    skew: int = 0
    order: int = 0


class HostileWorld(ABC):
    """A test that no read and no resume ever loses a row. Subclass it, and implement how the API serves rows.

    Rows appear with equal and growing values of the cursor, before and during a read, and in changed order; pages have
    all sizes; the last row is duplicated; clocks are ahead and behind; the API fails after any number of requests, and
    the next read resumes. Once a read is complete, every row that existed when it started must have been read, by it or
    by an earlier read; if the reader's clock was behind, at the latest by the next read.

    source, config: as in `ConnectorSuite`. stream: the stream to read. examples: the number of worlds.
    begin: the time before the first row. The stream must read rows from then on: not before the start of its cursor.
    ordered: whether the API sorts by the cursor, so that rows keep their order.
    late: how many hours the stream looks back, and so how late rows may be, less the hours by which the clock is ahead.
    Requires the package hypothesis.
    """

    source: ClassVar[Connector]
    stream: ClassVar[str]
    config: ClassVar[Mapping[str, FieldValue]] = {}
    examples: ClassVar[int] = 50
    begin: ClassVar[str] = "2024-03-01T00:00:00+00:00"
    ordered: ClassVar[bool] = False
    late: ClassVar[int] = 0

    @abstractmethod
    def row(self, number: int, timestamp: datetime) -> Record:
        """Return a row with `number` as its key and `timestamp` in its cursor field."""

    @abstractmethod
    def api(self, rows: Sequence[Record], page_size: int) -> Transport:
        """Return an API that serves `rows` as they are when a request arrives, such as `MockApi` with `serves`."""

    def test_no_row_is_lost_in_any_world(self) -> None:
        # Imported here so that cdk.testing can be imported without hypothesis.
        from hypothesis import HealthCheck, given, settings  # noqa: PLC0415
        from hypothesis import strategies as st  # noqa: PLC0415

        rounds = st.builds(
            Round,
            hours=st.lists(st.integers(-self.late, 2), max_size=4),
            meanwhile=st.integers(0, 2),
            twice=st.booleans(),
            fails_after=st.none() | st.integers(0, 6),
            slices=st.sampled_from([1, 3]),
            skew=st.sampled_from([0, -2, 3]),
            order=st.just(0) if self.ordered else st.integers(0, 2),
        )

        @settings(max_examples=self.examples, deadline=None, suppress_health_check=list(HealthCheck))
        @given(rounds=st.lists(rounds, max_size=4), page_size=st.integers(1, 4))
        def lose_nothing(rounds: list[Round], page_size: int) -> None:
            self.play([*rounds, Round([])], page_size)

        lose_nothing()

    def play(self, rounds: Sequence[Round], page_size: int) -> None:
        """Run the rounds in order. Raises Nonconforming: when a row is lost, or a read fails but the API did not."""
        rows: list[Record] = []
        dates: dict[str, datetime] = {}
        read_before: set[str] = set()
        state: Sequence[AirbyteStateMessage] = ()
        timestamp, complete = datetime.fromisoformat(self.begin), True
        # With a clock that is ahead, a read's window ends in the future, and its look-back is shorter by that much.
        latest, before = timedelta(hours=max(0, self.late - max(0, *(each.skew for each in rounds)))), timestamp
        source = connector(self.source)
        for number, each in enumerate(rounds, 1):
            coming: list[Record] = []
            present = timestamp + timedelta(hours=1 + sum(max(0, hours) for hours in each.hours))
            for behind, hours in zip(reversed(range(len(each.hours))), each.hours, strict=True):
                timestamp += timedelta(hours=max(0, hours))
                at = timestamp + timedelta(hours=min(0, hours))
                if self.late:
                    at = max(at, (present if behind < each.meanwhile else max(timestamp, before)) - latest)
                coming.append(self.row(len(rows) + len(coming) + 1, at))
                dates[canonical(coming[-1])] = max(timestamp, at)
            during = coming[len(coming) - each.meanwhile :] if each.meanwhile else []
            rows += coming[: len(coming) - len(during)]
            # A row that exists three times can fill three pages in a row, and then any read of the kit ends.
            rows += rows[-1:] if rows and each.twice and rows.count(rows[-1]) == 1 else []
            # After an interrupted read the order stays, because its page token would point elsewhere among reordered
            # rows.
            rows = _ordered(rows, each.order if complete else 0)
            now, before = present + timedelta(hours=each.skew), present
            # A row dated at exactly the reader's present may fall into the next read's window.
            visible = {text for text in map(canonical, rows) if dates[text] < now}
            api = _Growing(Failing(self.api(rows, page_size), fails_after=each.fails_after), rows, during)
            run = read(
                source,
                self.stream,
                config=self.config,
                state=state,
                transport=api,
                clock=MockClock(now),
                concurrency=each.slices,
                every_state=True,
            )
            api.grow()
            read_before |= set(map(canonical, run.records))
            state, complete = run.state_messages or state, run.error is None
            missing = {text: dates[text] for text in sorted(visible - read_before) if complete}
            if missing:
                self._check_reach(source, api, now, missing)
            self._judge(run, each, [*missing], f"read {number} of {len(rounds)}")

    def _check_reach(self, source: Source, api: Transport, now: datetime, missing: Mapping[str, datetime]) -> None:
        """Raise Nonconforming: when rows lie outside of what the stream reads. missing: the rows and their dates."""
        with SuiteSubject(source, self.config, lambda: api, MockClock(now)).streams() as streams:
            cursor = streams[self.stream].cursor
            if not isinstance(cursor, DatetimeCursor):
                return
            start, end = cursor.timestamp(cursor.start), cursor.until(now)
        early = [text for text, date in missing.items() if start is not None and date < start]
        beyond = early or [text for text, date in missing.items() if date > end]
        if beyond:
            limit = f"starts at {cursor.start}" if early else f"ends at {cursor.write(end)}"
            raise Nonconforming(
                f"{len(beyond)} rows of this world lie where the stream never reads: {listed_json(beyond)}",
                where=f"{self.stream}, whose cursor {limit}",
                expected=f"a cursor that reads the rows of the world, which come from {self.begin} on",
                advice="set `begin` of the world, so that they come after the start of the cursor and before its end",
            )

    def _judge(self, run: ReadResult, each: Round, missing: list[str], which: str) -> None:
        if missing:
            raise Nonconforming(
                f"{len(missing)} rows are lost when {which} is complete: {listed_json(missing)}",
                where=f"{self.stream}, state {[canonical(blob) for blob in run.states[-1:]]}",
                expected="every row that existed when the read started",
                advice="request values from the last one on, including it, and have states cover only what was read; "
                f"if the stream requests no value as old as {self.begin}, set `begin`",
            )
        if run.error is not None and each.fails_after is None:
            raise Nonconforming(
                f"{which} fails, although the API does not: {run.error}",
                where=self.stream,
                expected="a read that resumes",
                advice="accept every state that the connector has written",
            )


def _ordered(rows: Sequence[Record], order: int) -> list[Record]:
    """Return the rows in the given `order` of a `Round`."""
    middle = len(rows) // 2
    return [list(rows), list(reversed(rows)), [*rows[middle:], *rows[:middle]]][order]


class _Growing(Offline):
    """An API that gains rows after its first request."""

    def __init__(self, api: Transport, rows: list[Record], during: Sequence[Record]) -> None:
        self._api, self._rows, self._during = api, rows, list(during)

    def grow(self) -> None:
        """Add the rows, unless they were added before."""
        during, self._during = self._during, []
        self._rows += during

    def send(self, request: Request) -> Response:
        """Return the API's response, then add the rows."""
        try:
            return self._api.send(request)
        finally:
            self.grow()
