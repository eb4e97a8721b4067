"""RedundantRunSkipHandler: reads each time range only once. It uses one slot of the state log, `window:<name>`.

The slot holds the time ranges that have been read, in whole buckets; a run reads a request minus these ranges. A bucket
only counts as read if it had ended at least `settle` before the run started, because late rows may arrive until then.

    {"selection": "5f3a...", "covered": [["2024-01-01T00:00:00+00:00", "2024-01-03T00:00:00+00:00"]]}

Ranges that were read with another selection do not count.
"""

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from cdk.base.errors import BadState, BugError, ConfigError
from cdk.base.logs import logger
from cdk.base.values import JsonValue, Stored, canonical
from cdk.state.handlers.intervals import Interval, Intervals, floor, inward, minus, normal, outward, require_zone
from cdk.state.handlers.run import StatefulRun
from cdk.state.log.canonical_json import digest
from cdk.state.log.slot_value import Kind

INTERVALS = Kind("cdk/intervals")
"""Kind of the `window:` slots."""

_BUCKETS = {"HOUR": timedelta(hours=1), "DAY": timedelta(days=1), "WEEK": timedelta(weeks=1)}


class Planned(Struct, frozen=True):
    """The ranges that a run should read, in whole buckets."""

    requested: Interval
    """The request, extended by the part of the gap before it that the run fills."""
    unread: Intervals
    """The unread part of `requested`, oldest first; empty if the run is redundant."""
    gap: Interval | None = None
    """The range that stays unread between the newest covered range and `requested`."""

    @property
    def skip(self) -> bool:
        """Whether there is nothing to read."""
        return not self.unread


class RedundantRunSkipHandler:
    """Plans what one step of a run still has to read, and records what it has read. Belongs to one thread.

    name: the slot is `window:<name>`. selection: everything else that decides which rows are read, such as filters, as
    JSON without secrets; when it changes, everything is read again.
    Raises BadState: when the slot's value is invalid.
    """

    def __init__(self, run: StatefulRun, name: str, *, selection: JsonValue = None) -> None:
        self.slot, self._run, self._bucket = f"window:{name}", run, _BUCKETS[run.options.bucket_duration]
        # `digest` starts with the name of the hash; 64 bits of it suffice to tell selections apart.
        self.selection = digest(canonical(selection).encode()).partition(":")[2][:16]
        path = f"state of {run.log.key} {self.slot}"
        visible, newest = run.shown(self.slot, INTERVALS), run.newest_value(self.slot, INTERVALS)
        # A run that ignores the state compares with nothing, but still adds to what earlier runs covered.
        self._visible = _read(visible, self.selection, path)
        self._covered = _read(newest, self.selection, path)
        # A bucket that had not ended when the read started may have grown since.
        self._settled = floor(run.log.clock() - run.options.settle, self._bucket)
        self._done: Intervals = ()
        self._failed: set[str] = set()

    def plan(self, start: datetime | None = None, end: datetime | None = None) -> Planned:
        """Return what is left to read of a request, in whole buckets.

        end: defaults to the end of the newest bucket that has ended and settled. start: defaults to one bucket before
        `end`.
        Raises ConfigError: when a timestamp has no time zone, or `start` is not before `end`.
        """
        end = self._settled if end is None else require_zone(end, "end_time")
        start = end - self._bucket if start is None else require_zone(start, "start_time")
        if start >= end:
            raise ConfigError(f"found {start.isoformat()} to {end.isoformat()}, expected a start before the end")
        requested, gap = outward(Interval(start, end), self._bucket), None
        covered = inward(self._visible, self._bucket)
        if covered and covered[-1].end < requested.start:
            gap = Interval(covered[-1].end, requested.start)
            logger.info("%s: no run has read %s", self.slot, _range_text(gap))
            if self._run.options.on_gap == "fill":
                oldest = floor(requested.start - self._run.options.max_fill, self._bucket)
                filled = max(gap.start, oldest)
                gap = Interval(gap.start, filled) if gap.start < filled else None
                requested = Interval(filled, requested.end)
        planned = Planned(requested, minus((requested,), covered), gap)
        if planned.skip:
            text = "%s: skipped: %s was read before; set force_rerun to read it again"
            logger.info(text, self.slot, _range_text(requested))
        return planned

    def should_skip_this_run(
        self, start: datetime | None = None, end: datetime | None = None, *, cur_start_time_millis: int | None = None
    ) -> bool:
        """Whether a request is redundant. A skipped run reads nothing, stores nothing, and counts as successful.

        cur_start_time_millis: the start in milliseconds since 1970, instead of `start`.
        """
        if cur_start_time_millis is not None:
            start = _of_millis(cur_start_time_millis)
            if end is None and start >= self._settled:
                return False  # no bucket of it has ended yet
        return self.plan(start, end).skip

    def forget(self) -> bool:
        """Propose to forget all ranges that earlier runs read, because their rows are missing.

        Return whether there were any. Raises BugError: when a step failed.
        """
        if known := bool(self._covered):
            self._visible = self._covered = ()
            self.propose()
        return known

    def report_current_run_status(self, step: str, *, ok: bool) -> None:
        """Report whether a step succeeded. If any step failed, nothing that this run read counts as read."""
        if not ok:
            self._failed.add(step)

    def cover(self, interval: Interval) -> None:
        """Record that a range was read completely and is durable; `update_state` does so for all ranges of a plan."""
        settled = Interval(require_zone(interval.start, "start"), min(require_zone(interval.end, "end"), self._settled))
        self._done = normal([*self._done, settled])

    def update_state(
        self,
        planned: Planned | None = None,
        *,
        start_time_millis: int | None = None,
        end_time_millis: int | None = None,
    ) -> bool:
        """Propose that a plan has been read. Return whether this covers more than was covered before.

        start_time_millis, end_time_millis: the range that was read, in milliseconds since 1970, instead of a plan.
        Proposes nothing if a step failed or nothing was read. Raises ConfigError: when neither a plan nor both times
        are passed.
        """
        if planned is not None:
            intervals = planned.unread
        elif start_time_millis is not None and end_time_millis is not None and start_time_millis < end_time_millis:
            intervals = (Interval(_of_millis(start_time_millis), _of_millis(end_time_millis)),)
        else:
            raise ConfigError("found no plan, expected one, or a start_time_millis before an end_time_millis")
        if self._failed:
            logger.info("%s: not recorded as read: %s failed", self.slot, ", ".join(sorted(self._failed)))
            return False
        for interval in intervals:
            self.cover(interval)
        if intervals:
            self.propose()
        return bool(minus(inward(self._done, self._bucket), self._covered))

    def propose(self) -> None:
        """Store the covered ranges with the next commit. Raises BugError: when a step failed."""
        if self._failed:
            raise BugError(
                f"{self.slot}: the steps {', '.join(sorted(self._failed))} failed; expected no proposal after a failure"
            )
        intervals = normal([*self._covered, *inward(self._done, self._bucket)])
        newest = intervals[-self._run.options.max_intervals :]
        covered = [[interval.start.isoformat(), interval.end.isoformat()] for interval in newest]
        self._run.session.propose(self.slot, INTERVALS.of({"selection": self.selection, "covered": covered}))


def _of_millis(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)


def _read(value: Stored, selection: str, path: str) -> Intervals:
    """Parse the ranges of a slot's value; empty for None and for another selection. Raises BadState naming `path`."""
    if value is None:
        return ()
    covered = value.get("covered") if isinstance(value, dict) else None
    if not isinstance(covered, list) or not isinstance(value.get("selection"), str):
        raise BadState(path, value, "an object with `selection` and `covered`")
    try:
        intervals = [Interval(*(require_zone(datetime.fromisoformat(text), path) for text in pair)) for pair in covered]
    except (TypeError, ValueError, ConfigError) as error:
        raise BadState(f"{path} covered", covered, "pairs of timestamps with a time zone") from error
    if any(interval.start >= interval.end for interval in intervals):
        raise BadState(f"{path} covered", covered, "pairs of timestamps, the earlier one first")
    return normal(intervals) if value["selection"] == selection else ()


def _range_text(interval: Interval) -> str:
    return f"{interval.start.isoformat()} to {interval.end.isoformat()}"
