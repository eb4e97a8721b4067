"""`spark-cdk runs PIPELINE.yaml`: lists the last runs of a pipeline, and how each ended."""

from collections.abc import Iterator, Sequence

import click
from rich.text import Text

from cdk.base.wording import counted
from cdk.cli.options import json_option, number_option
from cdk.cli.output import print_json
from cdk.cli.printed_table import add_figures, plain_table, wide_console
from cdk.cli.state.options import PipelineFile, pipeline_argument, translate_errors, trust_option
from cdk.cli.sync.past_runs import PastRun, past_runs, run_json
from cdk.cli.sync.stream_table import duration_text

_COLOURS = {"done": "green", "failed": "red"}


@click.command()
@pipeline_argument
@number_option("-n", "most", default=10, text="How many runs to list.")
@click.option("--streams", "by_stream", is_flag=True, help="List the streams of each run, too.")
@trust_option
@json_option
@translate_errors
def runs(pipeline: PipelineFile, *, most: int, by_stream: bool, as_json: bool) -> int:
    """List the last runs of a PIPELINE file, newest first: when, how long, rows, commits, and how each ended.

    Reads the logs of the tables, and the reports that runs saved beside them, which have the errors; sends no
    request to the source.
    """
    listed = past_runs(pipeline.tables(), pipeline.target, pipeline.name, most)[0][:most]
    if as_json:
        answer = [
            {
                "sync_id": run.name or None,
                **run_json(run),
                "streams": [{"stream": each.name, **run_json(each)} for each in run.streams],
            }
            for run in listed
        ]
        print_json(format="spark-cdk-runs/1", pipeline=pipeline.name, runs=pipeline.secrets.mask_json(answer))
    else:
        _print_table(pipeline, listed, by_stream=by_stream)
    return 0


def _print_table(pipeline: PipelineFile, runs: Sequence[PastRun], *, by_stream: bool) -> None:
    console, shown = wide_console(), plain_table()
    for name in ("sync", "began (UTC)"):
        shown.add_column(name, no_wrap=True)
    add_figures(shown, "took", "read", "rows", "commits")
    shown.add_column("status", no_wrap=True)
    shown.add_column("error" if by_stream else "streams, error", overflow="fold")
    for run in runs:
        streams = "" if by_stream else counted(len(run.streams), "stream")
        shown.add_row(*_cells(run, run.name[:8] or "-", ", ".join(filter(None, (streams, run.error))), pipeline))
        for each in run.streams if by_stream else ():
            shown.add_row(*_cells(each, f"  {each.name}", each.error, pipeline))
    if runs:
        console.print(shown)
    count = counted(len(runs), "run") if runs else "no sync has run yet"
    console.print(Text(f"{pipeline.name}: {count}", "dim"), soft_wrap=True)


def _cells(run: PastRun, name: str, last: str, pipeline: PipelineFile) -> Iterator[Text]:
    yield Text(name)
    yield Text("" if run.started is None else run.started.strftime("%Y-%m-%d %H:%M:%S"))
    duration = "" if run.length is None else duration_text(run.length.total_seconds())
    yield Text(duration if run.reported or not duration else f"≥ {duration}")
    for figure in (run.sums.receipt.read, run.sums.receipt.landed, run.sums.commits):
        yield Text(f"{figure:,}")
    yield Text(run.status, _COLOURS.get(run.status, "yellow"))
    yield Text(pipeline.secrets.mask(last))
