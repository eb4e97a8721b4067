"""Shows what a sync would do: in figures for `spark-cdk plan PIPELINE`, or with its first slices and records.

From past runs, the rows and the duration are estimated, and what changed since a stream's last run is listed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from statistics import median

import click
from msgspec import Struct

from cdk.base.documents import locating
from cdk.base.secret_masking import Secrets
from cdk.base.times.clock import system_clock
from cdk.base.values import Json, JsonValue, to_json
from cdk.base.wording import counted, listed
from cdk.cli.command_errors import messages_on_stderr
from cdk.cli.options import custom_code_option, json_option, number_option, pipeline_path, with_egress
from cdk.cli.output import print_json
from cdk.cli.pipeline_from_file import config_file, file_pipeline
from cdk.cli.sync.past_runs import PastRun, past_runs
from cdk.cli.sync.stream_table import duration_text
from cdk.lake.admin.diff import shown, values
from cdk.lake.admin.locate import locations_in
from cdk.lake.storage.object_store import folder_at
from cdk.protocol.reports import Mask
from cdk.sources.config_file import ConfigEvents
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.loop.preview import PlannedRead, Preview
from cdk.sync.settings.pipeline_file import Pipeline

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


_CURSORS = 3
_RUNS = 10
"""How many past runs the estimates are based on."""


@click.command()
@pipeline_path()
@number_option("--most", default=10_000, text="Slices of a stream to count.")
@custom_code_option
@json_option
@with_egress
def plan(pipeline: Path, *, most: int, allow_custom_code: bool, as_json: bool) -> int:
    """Show what a sync of a PIPELINE file would read and write, in figures; reads and writes nothing.

    Planning a substream requests its parents from the API. The exit code is 1 if a stream cannot be planned.
    """
    secrets = Secrets()
    with messages_on_stderr(secrets), locating(pipeline):
        if as_json:
            answer = plan_json(pipeline, secrets, most=most, trusted=allow_custom_code)
            print_json(**answer)
            return 1 if any(each["error"] is not None for each in answer["streams"]) else 0
        settings, runner = _runner(pipeline, secrets, trusted=allow_custom_code)
        failed, streams, runs = False, list[str](), _past_runs(settings)
        for each in runner.plan(most):
            failed |= each.failure is not None
            streams.append(each.plan.name)
            for line in _lines(each, runs):
                click.echo(secrets.mask(line))
        seconds = expected_seconds(runs, streams)
        expected = [] if seconds is None else [f"expected to take {duration_text(seconds.amount)}: {seconds.how}"]
        for line in (*map(secrets.mask, runner.notes()), *expected, "nothing was written"):
            click.echo(line)
    return 1 if failed else 0


def plan_json(pipeline: Path, secrets: Secrets, *, most: int = 10_000, trusted: bool = False) -> Json:
    """The object that `--json` prints. trusted: Python code that a manifest names may run. Raises ConfigError."""
    settings, runner = _runner(pipeline, secrets, trusted=trusted)
    runs = _past_runs(settings)
    streams = [_as_json(each, runs, secrets.mask) for each in runner.plan(most)]
    return {
        "format": "spark-cdk-plan/1",
        "pipeline": settings.name,
        "target": settings.target.path,
        "streams": streams,
        "expected_seconds": _expected_json(expected_seconds(runs, [str(each["stream"]) for each in streams])),
        "notes": [secrets.mask(note) for note in runner.notes()],
    }


def _runner(pipeline: Path, secrets: Secrets, *, trusted: bool) -> tuple[Pipeline, SyncRunner]:
    settings, source = file_pipeline(pipeline, secrets, trusted=trusted)
    source.events = ConfigEvents(secrets, config_file(pipeline))
    return settings, SyncRunner(settings, source, learn=secrets.add)


def _past_runs(settings: Pipeline) -> Sequence[PastRun]:
    """The last runs of a pipeline with a commit or a report, newest first.

    Empty for a target in an object store, whose tables are not listed.
    """
    target, name = folder_at(settings.target.path, settings.target.storage), settings.name
    if target.on_disk is None or not target.on_disk.is_dir():
        return []
    runs, _ = past_runs(locations_in(target, name), target, name, _RUNS)
    return [run for run in runs if run.reported or run.streams]


def _lines(planned: PlannedRead, runs: Sequence[PastRun]) -> Iterator[str]:
    plan = planned.plan
    yield f"{plan.name}: {plan.sync_mode}, {plan.write_mode} ({planned.writes}), {_start(planned.state)}"
    for change in changes(planned, first_run=not runs):
        yield f"  {change}"
    if planned.failure is not None:
        yield f"  cannot be planned: {planned.failure.message}"
        return
    more = "" if planned.complete else " or more"
    of = f" of {planned.partitions:,} partitions" if planned.partitions > 1 else ""
    windows = "" if planned.first is None else f", {planned.first} to {planned.last or 'the newest'}"
    yield f"  {planned.slices:,}{more} {'slice' if planned.slices == 1 else 'slices'}{of}{windows}"
    if planned.least_requests is not None:
        yield f"  at least {planned.least_requests:,} requests to read, {planned.sent:,} to plan"
    if (rows := expected_rows(planned, runs, system_clock())) is not None:
        yield f"  about {rows.amount:,.0f} rows expected, {rows.how}"
    if planned.afterwards:
        yield f"  the state afterwards, at most: {_cursors(planned.afterwards)}"


def show_previews(previews: Iterable[Preview], mask: Mask, notes: Iterable[str] = ()) -> int:
    """Print each stream with its first slices and its first records, as JSON lines; return 1 if a stream failed.

    notes: what else a sync would do, one line each.
    """
    failed = False
    for preview in previews:
        plan = preview.plan
        click.echo(mask(f"{plan.name}: {plan.sync_mode}, {plan.write_mode}, {_start(preview.state)}"))
        for slice in preview.slices:
            click.echo(mask(f"  {slice}"))
        if preview.more:
            click.echo("  and more")
        for record in preview.records:
            click.echo(to_json(record).decode())
        if preview.failure is not None:
            failed = True
            click.echo(mask(f"{plan.name}: {preview.failure.message}"), err=True)
    for note in (*map(mask, notes), "nothing was written"):
        click.echo(note)
    return 1 if failed else 0


def _start(state: JsonValue) -> str:
    cursors = _cursors(state)
    return f"resumes from {cursors}" if cursors else "from its start"


def _cursors(state: JsonValue) -> str:
    return listed(values(state), _CURSORS, lambda each: f"{each[0]} {shown(each[1])}")


def _expected_json(expected: Forecast | None) -> JsonValue:
    return None if expected is None else {"about": round(expected.amount, 3), "from": expected.how}


def _as_json(planned: PlannedRead, runs: Sequence[PastRun], mask: Mask) -> Mapping[str, object]:
    plan = planned.plan
    return {
        "stream": plan.name,
        "sync_mode": plan.sync_mode,
        "write_mode": plan.write_mode,
        "writes": planned.writes,
        "state": planned.state,
        "slices": planned.slices,
        "partitions": planned.partitions,
        "new_partitions": planned.new_partitions,
        "quiet_partitions": planned.quiet_partitions,
        "changes": [mask(change) for change in changes(planned, first_run=not runs)],
        "expected_rows": _expected_json(expected_rows(planned, runs, system_clock())),
        "first": planned.first,
        "last": planned.last,
        "complete": planned.complete,
        "least_requests": planned.least_requests,
        "requests_to_plan": planned.sent,
        "state_afterwards": planned.afterwards,
        "error": None if planned.failure is None else mask(planned.failure.message),
    }
