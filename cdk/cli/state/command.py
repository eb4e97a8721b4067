"""`spark-cdk state`: shows the states of a pipeline's streams. Modules beside it have the verbs that change them."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import click
from msgspec import Struct
from msgspec.structs import replace

from cdk.base.values import Json
from cdk.base.wording import counted, first_few
from cdk.cli.options import json_option
from cdk.cli.output import print_json
from cdk.cli.state.edit import partition_of, partition_option, reset, rewind, rollback, set_
from cdk.cli.state.exchange import export, fork, import_
from cdk.cli.state.maintenance import gc, verify
from cdk.cli.state.options import BrokenTables, PipelineFile, for_streams, pipeline_argument, translate_errors
from cdk.lake.admin.commit_log import Commit
from cdk.lake.admin.diff import Move, moves, shown, values
from cdk.lake.admin.edits import narrowed
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.state_admin import Admin, StreamStatus, difference
from cdk.lake.delta.state_blobs import number
from cdk.lake.delta.table_state import TableState
from cdk.sync.tables.conditional_state import about_source

_SHOWN = 10
_MOVES = 3
_COMMITS = 20


@click.command()
@pipeline_argument
@for_streams
@partition_option
@json_option
@translate_errors
def show(pipeline: PipelineFile, names: tuple[str, ...], partition: str | None, *, as_json: bool) -> int:
    """Show where each stream of a PIPELINE file stands. The exit code is 1 where a state cannot be read."""
    chosen = partition_of(partition)
    statuses = statuses_of(pipeline, names) if chosen is None else statuses_of(pipeline, [pipeline.table(names).name])
    if chosen is not None:
        statuses = [replace(s, saved=narrowed(s.saved, chosen)) if s.saved else s for s in statuses]
    code = 1 if any(status.lost for status in statuses) else 0
    if as_json:
        print_json(format="spark-cdk-state-show/1", pipeline=pipeline.name, streams=[*map(status_json, statuses)])
        return code
    for status in statuses:
        for line in _status_lines(status):
            click.echo(line)
    if not statuses:
        click.echo(f"{pipeline.name}: no sync has committed anything yet")
    if not names and chosen is None:
        for sentence in pipeline.tables_of_others(alone=not statuses):
            click.echo(sentence)
    return code


@click.command()
@pipeline_argument
@for_streams
@click.option(
    "--limit", type=click.IntRange(1, sys.maxsize), default=_COMMITS, help="Commits of each stream. Default: 20."
)
@json_option
@translate_errors
def log(pipeline: PipelineFile, names: tuple[str, ...], *, limit: int, as_json: bool) -> int:
    """Show the commits that changed the states of a PIPELINE file's streams, newest first.

    The exit code is 1 where a table's log cannot be read.
    """
    admin, broken = pipeline.admin(), BrokenTables()
    commits: dict[str, list[Entry]] = {}
    for table in pipeline.tables(names):
        with broken.noting(table):
            commits[table.name] = list(islice(entries_of(admin, table), limit))
    if as_json:
        streams = [{"stream": name, "commits": [*map(entry_json, entries)]} for name, entries in commits.items()]
        print_json(format="spark-cdk-state-log/1", pipeline=pipeline.name, streams=streams, broken=broken.errors)
        return broken.code
    for name, entries in commits.items():
        click.echo(name)
        for entry in entries:
            click.echo(f"  {_entry_line(entry)}")
            for line in first_few(entry.moves, _MOVES):
                click.echo(f"      {line}")
    return broken.show()


@click.command()
@pipeline_argument
@click.argument("older", metavar="A", type=int)
@click.argument("newer", metavar="B", type=int)
@for_streams
@json_option
@translate_errors
def diff(pipeline: PipelineFile, older: int, newer: int, names: tuple[str, ...], *, as_json: bool) -> int:
    """Show the differences between the states A and B of a stream, by the numbers that `log` shows."""
    admin, table = pipeline.admin(), pipeline.table(names)
    lines = difference(admin.at(table, older), admin.at(table, newer))
    if as_json:
        print_json(
            format="spark-cdk-state-diff/1",
            pipeline=pipeline.name,
            stream=table.name,
            older=older,
            newer=newer,
            lines=lines,
        )
        return 0
    for line in lines or ["no differences"]:
        click.echo(line)
    return 0


def statuses_of(pipeline: PipelineFile, names: Sequence[str] = ()) -> list[StreamStatus]:
    """The states of the streams in `names`, or of all if it is empty. Raises ConfigError and TransientError."""
    admin = pipeline.admin()
    return [admin.status(table) for table in pipeline.tables(names)]


def status_json(status: StreamStatus) -> Mapping[str, Json]:
    """The object that `state show --json` prints for a stream."""
    saved = status.saved
    return {
        "stream": status.stream,
        "path": status.path,
        "number": status.number,
        "complete": None if saved is None else saved.complete,
        "restored": status.restored,
        "lost": status.lost or None,
        "generation": None if saved is None else saved.generation,
        "sync_mode": None if saved is None else saved.sync_mode,
        "write_mode": None if saved is None else saved.write_mode,
        "sync": None if saved is None else saved.sync or None,
        "rows": None if saved is None else saved.records,
        "state": None if saved is None else saved.state,
        "source": None if saved is None else saved.source,
        "retained": list(status.retained),
    }


def _status_lines(status: StreamStatus) -> Iterator[str]:
    if status.lost:
        yield f"{status.stream}: the state cannot be read: {status.lost}"
    elif status.saved is None:
        yield f"{status.stream}: nothing is committed"
    else:
        saved = status.saved
        how = "complete" if saved.complete else "interrupted"
        restored = ", the table was restored to it" if status.restored else ""
        yield (
            f"{status.stream}: state {status.number}, {how}{restored}, {saved.sync_mode} {saved.write_mode}, "
            f"generation {saved.generation} with {counted(saved.records, 'row')}"
        )
        positions = first_few(values(saved.state), _SHOWN, lambda each: f"{each[0]}: {shown(each[1])}")
        for line in (*positions, *about_source(saved.source)):
            yield f"  {line}"
    if status.retained:
        yield f"  retained: {', '.join(map(str, status.retained))}"


class Entry(Struct, frozen=True):
    """A commit, its state if that still exists, and the moves since the previous commit, which are computed lazily."""

    commit: Commit
    saved: TableState | None
    moves: Iterator[Move]


def entries_of(admin: Admin, table: StreamLocation, before: int | None = None) -> Iterator[Entry]:
    """Yield the commits that moved the state or restored older rows, newest first. before: only older versions."""
    newer: tuple[Commit, TableState | None] | None = None
    for commit, saved in admin.log(table, before):
        if commit.state is None and commit.operation != "RESTORE":
            continue
        if newer is not None:
            known = newer[1] is not None and saved is not None
            yield Entry(*newer, moves(saved.state, newer[1].state) if known else iter(()))  # type: ignore[union-attr]  # `known`: neither is None
        newer = commit, saved
    if newer is not None:
        yield Entry(*newer, iter(()) if newer[1] is None else moves(None, newer[1].state))


def entry_json(entry: Entry, most: int | None = None) -> Mapping[str, object]:
    """The object that `state log --json` prints for a commit. most: how many moves it lists; None: all."""
    commit, saved = entry.commit, entry.saved
    return {
        "version": commit.version,
        "at": None if commit.at is None else commit.at.isoformat(timespec="seconds"),
        "operation": commit.operation,
        "number": None if commit.state is None else number(commit.state),
        "rows": commit.rows,
        "complete": None if saved is None else saved.complete,
        "sync": None if saved is None else saved.sync or None,
        "note": commit.note or None,
        "retained": saved is not None,
        "moves": [*map(str, islice(entry.moves, most))],
    }


def _entry_line(entry: Entry) -> str:
    commit, saved = entry.commit, entry.saved
    parts = [
        "at an unknown time" if commit.at is None else commit.at.isoformat(timespec="seconds"),
        f"version {commit.version}",
        "rows restored" if commit.state is None else f"state {number(commit.state)}",
        "rows unknown" if commit.rows is None else counted(commit.rows, "row"),
    ]
    if commit.edit:
        parts.append(commit.edit)
    if saved is None:
        parts.append("no longer available")
    else:
        parts.append("complete" if saved.complete else "interrupted")
        parts.append(f"sync {saved.sync[:8]}" if saved.sync else "no sync")
    return ", ".join(parts)


state = click.Group(
    "state",
    commands=[show, log, diff, reset, set_, rewind, rollback, export, import_, fork, verify, gc],
    help="Show the states of a PIPELINE file's streams, and change them between syncs.",
)
