"""Estimates the rows and the duration of a sync from past runs, and lists what changed since a stream's last run."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import islice
from statistics import median

from msgspec import Struct

from cdk.base.wording import counted
from cdk.cli.sync.past_runs import PastRun
from cdk.cli.sync.stream_table import duration_text
from cdk.lake.admin.diff import values
from cdk.sync.loop.preview import PlannedRead

_EXAMINED = 20
"""How many values of the last state are searched for the cursor's field."""


class Forecast(Struct, frozen=True):
    """An estimate. how: what it is based on, in words."""

    amount: float
    how: str


def expected_rows(planned: PlannedRead, runs: Sequence[PastRun], now: datetime) -> Forecast | None:
    """Estimate the rows that a stream will read; None without past runs to tell from. runs: newest first.

    A full refresh is expected to read as many as the last complete one; an incremental sync, to read at the average
    rate of new rows over the last ones.
    """
    past = [each for run in runs for each in run.streams if each.name == planned.plan.name and each.ended is not None]
    done = [number for number, each in enumerate(past) if each.status == "done"]
    if planned.saved is None or not done:
        return None
    if planned.plan.sync_mode != "incremental":
        existing = 0 if planned.saved.complete else planned.saved.records
        return Forecast(max(0, past[done[0]].sums.receipt.landed - existing), "as in the last complete read")
    newest, oldest = past[0].ended, past[done[-1]].ended
    if planned.state is None or newest is None or oldest is None or newest <= oldest:
        return None
    # Without the oldest one, which may have read years of history.
    since = past[: done[-1]]
    rows, between = sum(each.sums.receipt.landed for each in since), newest - oldest
    return Forecast(
        rows * max(0.0, (now - newest) / between),
        f"as {counted(rows, 'row')} in {duration_text(between.total_seconds())} "
        f"of the last {counted(len(since), 'run')}",
    )


def expected_seconds(runs: Sequence[PastRun], streams: Collection[str]) -> Forecast | None:
    """Estimate the seconds of a sync; None without a report of a complete run of exactly these streams."""
    lengths = [
        run.length.total_seconds()
        for run in runs
        if run.status == "done"
        and run.reported
        and run.length is not None
        and {each.name for each in run.streams} == set(streams)
    ]
    if not lengths:
        return None
    least, most = duration_text(min(lengths)), duration_text(max(lengths))
    about = f"{least} to {most}" if len(lengths) > 1 else "as long as it took"
    return Forecast(median(lengths), f"the median of the last {counted(len(lengths), 'run')}, {about}")


def changes(planned: PlannedRead, *, first_run: bool) -> Iterator[str]:
    """Yield a line for each difference to the stream's last run. first_run: the pipeline has never run."""
    plan, saved = planned.plan, planned.saved
    if saved is None:
        if not first_run:
            yield "new since the last run"
        return
    pairs: list[tuple[str, str, str]] = [
        ("sync mode", saved.sync_mode, plan.sync_mode),
        ("write mode", saved.write_mode, plan.write_mode),
    ]
    if plan.traits.merges and saved.keys:
        pairs.append(("primary key", ", ".join(saved.keys), ", ".join(plan.key_columns)))
    if saved.sync_mode == plan.sync_mode == "incremental" and plan.stream.cursor is not None:
        pairs.append(("cursor", _cursor(planned), plan.stream.cursor_field or ""))
    for name, before, after in pairs:
        if before and before != after:
            yield f"the {name} changed since the last run: {before} → {after}"
    if planned.new_partitions:
        yield f"{counted(planned.new_partitions, 'partition')} since the last run"
    if planned.quiet_partitions:
        yield f"{counted(planned.quiet_partitions, 'partition')} of the state with nothing to read, or no longer listed"


def _cursor(planned: PlannedRead) -> str:
    """The cursor field that the state was written with, if it differs from the current one; empty if unknown."""
    own = (where for where, _ in values(planned.state) if not where.startswith("parent "))
    fields = {where.rsplit(" ", 1)[-1] for where in islice(own, _EXAMINED)}
    now = planned.plan.stream.cursor_field
    return "" if now in fields or len(fields) != 1 or fields == {"state"} else fields.pop()
