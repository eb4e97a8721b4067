"""The demo: reads an API into Delta tables, kills everything half-way, starts again, and counts the rows.

`make demo`, or `python -m connectors.shop.demo`. Files go to the folder `demo`; all processes end with the demo.
"""

import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from connectors.shop.api import serving
from connectors.shop.backend import Backend

LATENCY = 0.2  # seconds; slow enough to watch
POLL = 0.25  # seconds between polls of the tables
STREAMS = ("products", "orders", "customers", "visits")

FOLDER = Path("demo")
TABLES = FOLDER / "tables"
PIPELINE = FOLDER / "pipeline.yaml"
BIN = Path(os.path.relpath(Path(sys.executable).parent))
SYNC = [str(BIN / "spark-cdk"), "sync", str(PIPELINE)]

PIPELINE_TEXT = """\
name: demo
source:
  connector: shop
  config:
    base_url: {address}
streams:
  products: {{write_mode: append}}   # overwrite would show its rows once all are there
  orders:
  customers:
  visits:
target:
  path: tables
checkpoint_interval: 1s   # a crash costs at most this much work
concurrency: 4
"""

console = Console(highlight=False)


def main() -> int:
    """Run the demo. Returns 0 if no row was lost or duplicated, else 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    shop = Backend()
    with serving(shop, latency=LATENCY) as address:
        _step(f"A shop's API answers at {address}, slowly: each response takes {LATENCY} seconds.")
        _step(f"{PIPELINE} says what to read and where to put it:")
        PIPELINE.write_text(PIPELINE_TEXT.format(address=address))
        console.print(PIPELINE.read_text(), style="cyan", markup=False, soft_wrap=True)

        _step("A first run. Once half of the rows are in the tables it is killed, Python and Spark alike.")
        with _sync("first") as process:
            if not _follow(process, shop, until=0.5):
                return _fail("the first run ended before it could be killed", "first")
            os.killpg(process.pid, signal.SIGKILL)
        console.print("[bold red]Killed.[/] This much is safe, with the state of the run in the same commits:")
        safe = sum(_rows().values())
        console.print(_comparison(shop))

        _step("The same command again. It resumes where the first run got to, according to the tables.")
        with _sync("second") as process:
            _follow(process, shop)
        if process.returncode:
            return _fail(f"the second run ended with exit code {process.returncode}", "second")
        console.print(_comparison(shop))
        console.print(_sample())
        return _verdict(shop, safe, address)


def _step(text: str) -> None:
    console.print(f"\n[bold]{text}[/]")


@contextmanager
def _sync(run: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `spark-cdk sync` in a process group of its own, which is killed when the block ends."""
    console.print(f"[dim]$[/] [green]{shlex.join(SYNC)}[/]")
    with (
        _log(run).open("wb") as log,
        subprocess.Popen(  # noqa: S603 - written above
            SYNC, stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        finally:
            # The JVM outlives the driver by some seconds, so the group may exist when its leader no longer does. (macOS
            # raises PermissionError for a group that is dying.)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _follow(process: subprocess.Popen[bytes], shop: Backend, until: float = math.inf) -> bool:
    """Show the rows arriving. Returns True once the share `until` is there, False if the process ends before."""
    records = {name: count["records"] for name, count in shop.stats().items()}
    bars = Progress(
        TextColumn("{task.description:>10}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    with bars:
        tasks = {name: bars.add_task(name, total=records[name]) for name in STREAMS}
        while True:
            ended = process.poll() is not None
            rows = _rows()
            for name, task in tasks.items():
                bars.update(task, completed=rows[name])
            if sum(rows.values()) >= until * sum(records.values()):
                return True
            if ended:
                return False
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL)


def _table(name: str) -> DeltaTable | None:
    path = str(TABLES / name)
    return DeltaTable(path) if DeltaTable.is_deltatable(path) else None


def _rows() -> dict[str, int]:
    """Return the number of committed rows of each stream."""
    return {name: table.count() if (table := _table(name)) else 0 for name in STREAMS}


def _distinct(name: str) -> int:
    table = _table(name)
    files = table.file_uris() if table else []
    return len(pq.read_table(files, columns=["id"])["id"].unique()) if files else 0


def _comparison(shop: Backend) -> Table:
    """Return a comparison of the tables' rows, the API's records, and the pages that were requested."""
    shown = Table(
        "stream", caption="customers: read from the start by each run, and requested as the parents of visits"
    )
    for title in ("rows", "distinct keys", "in the API", "pages fetched", "of them twice"):
        shown.add_column(title, justify="right")
    rows = _rows()
    for name, count in shop.stats().items():
        figures = (rows[name], _distinct(name), count["records"], count["pages"], count["pages_again"])
        shown.add_row(name, *map(str, figures))
    return shown


def _sample() -> Table:
    """Return a table of a few rows, in which an object is a column with fields rather than a string."""
    columns = ["id", "updated_at", "total", "address"]
    shown = Table(*columns, title=f"three rows of {TABLES / 'orders'}")
    table = _table("orders")
    assert table is not None
    for row in pq.read_table(table.file_uris(), columns=columns).slice(0, 3).to_pylist():
        shown.add_row(*(str(value) for value in row.values()))
    return shown


def _verdict(shop: Backend, safe: int, address: str) -> int:
    rows, counts = _rows(), shop.stats()
    records = {name: counts[name]["records"] for name in STREAMS}
    again = sum(count["pages_again"] for name, count in counts.items() if name != "customers")
    if rows != records or rows != {name: _distinct(name) for name in STREAMS}:
        return _fail(f"the tables hold {rows}, the API {records}", "second")
    console.print(
        f"\n[bold green]Nothing lost, nothing duplicated:[/] {sum(rows.values())} rows for {sum(records.values())} "
        f"records. The killed run had brought {safe} of them; {again} pages that it had not committed were read again."
    )
    port = address.rpartition(":")[2]
    _step("To try it by hand, for example with a Ctrl-C of your own:")
    console.print(f"[dim]$[/] [green]{BIN}/python -m connectors.shop.api --port {port} --latency {LATENCY} &[/]")
    console.print(f"[dim]$[/] [green]rm -r {TABLES}; {shlex.join(SYNC)}[/]")
    return 0


def _fail(what: str, run: str) -> int:
    console.print(f"[bold red]The demo failed:[/] {what}. The last lines of {_log(run)}:")
    console.print("\n".join(_log(run).read_text().splitlines()[-20:]), markup=False)
    return 1


def _log(run: str) -> Path:
    return FOLDER / f"{run}-run.log"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
