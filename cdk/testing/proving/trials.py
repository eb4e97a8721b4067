"""Trials: runs a connector's syncs in separate processes, which may be killed, and reads the rows they leave."""

import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from msgspec import Struct, field, json

from cdk.base.errors import CdkError
from cdk.base.process.crash_points import reached
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue
from cdk.streams.source import Source
from cdk.streams.stream import full_name
from cdk.sync import Pipeline, SyncRunner
from cdk.testing.cassettes.replay import Cassette

EACH_PAGE, RARELY = "0s", "1h"
"""Commit intervals; the first commit is made after four seconds at the latest."""

_LAST_LINES = 20
"""How many of the last log lines to show for a process that ended without a report.

Whole lines, because a part of a secret would not be masked.
"""

_BY_RUN = {"_airbyte_raw_id", "_airbyte_extracted_at", "_airbyte_generation_id"}
"""Columns whose values differ in each run."""


class Subject(Struct, frozen=True):
    """A connector to prove, with its config and a cassette. Picklable.

    streams: names; empty for all. find: returns a new instance of the connector. notes: what users should know about
    how it is proved.
    """

    find: Callable[[], Source]
    config: Mapping[str, JsonValue]
    cassette: Cassette
    streams: Sequence[str] = ()
    notes: Sequence[str] = ()

    def pipeline(self, folder: Path, interval: str = EACH_PAGE) -> tuple[Pipeline, Source]:
        """Return the pipeline into a folder, and its source. Streams with a cursor are appended.

        interval: of commits.
        """
        source = self.find()
        target = {"path": str(folder), "join_small_files": False}
        plain = {"name": "proof", "source": {"connector": "proof", "config": dict(self.config)}, "target": target}
        pipeline = Pipeline.model_validate(plain).prepared(source, "config", Secrets())
        with self.cassette.playing():
            streams = source.open(pipeline.config)
        options = {
            full_name(stream): {"write_mode": "append" if stream.incremental else "overwrite"}
            for stream in streams
            if not self.streams or stream.name in self.streams
        }
        chosen = Pipeline.model_validate({**plain, "streams": options, "checkpoint_interval": interval})
        # Prepared again, for the defaults of the connector's spec.
        return chosen.prepared(source, "config", Secrets()), source


class TrialRun(Struct, frozen=True):
    """How a sync ended. reached: how often it passed each crash point. failure: why a stream was not read, if any.

    warnings: what users should know about the data that was read.
    """

    killed: bool
    seconds: float = 0.0
    reached: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""
    warnings: Sequence[str] = ()


class Trials:
    """Runs syncs of a subject in forks of a server process that has imported everything.

    limit: the seconds after which a sync is considered endless.
    """

    def __init__(self, subject: Subject, limit: float = 3600.0) -> None:
        self._subject, self.limit = subject, limit
        self._forks = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload([__name__])

    def sync(
        self, folder: Path, *, interval: str = EACH_PAGE, crash_at: str = "", seconds: float | None = None
    ) -> TrialRun:
        """Run a sync into a folder.

        crash_at: the crash point at which it dies. seconds: after how many it is killed.
        """
        report, log = folder.with_suffix(".json"), folder.with_suffix(".log")
        report.unlink(missing_ok=True)
        process = self._forks.Process(
            target=_sync, args=(self._subject, folder, report, interval, crash_at), daemon=True
        )
        process.start()
        process.join(self.limit if seconds is None else seconds)
        endless = seconds is None and process.is_alive()
        process.kill()
        process.join()
        if endless:
            return TrialRun(killed=False, failure=f"it does not end, {self.limit:.0f} s after its start")
        if process.exitcode == -signal.SIGKILL:
            return TrialRun(killed=True)
        if not report.exists():
            lines = log.read_text(errors="replace").splitlines()[-_LAST_LINES:] if log.exists() else ()
            why = "\n".join((f"the process ended with exit code {process.exitcode}", *lines))
            return TrialRun(killed=False, failure=why)
        return json.decode(report.read_bytes(), type=TrialRun)


def _sync(subject: Subject, folder: Path, report: Path, interval: str, crash_at: str) -> None:
    """Run a sync in this process, and write the report."""
    # Logs, tracebacks and a connector's prints may contain secrets; whoever reports on the sync masks them.
    with folder.with_suffix(".log").open("wb") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    os.environ["CDK_CRASH_AT"] = crash_at
    began, warnings = time.monotonic(), list[str]()
    with subject.cassette.playing():
        pipeline, source = subject.pipeline(folder, interval)
        try:
            result = SyncRunner(pipeline, source).run()
            failures = [f"{each.name}: {each.failure.message}" for each in result.streams if each.failure is not None]
            warnings = [text for each in result.streams for text in each.warnings]
        except CdkError as error:
            failures = [str(error)]
    seconds, failure = time.monotonic() - began, "; ".join(failures)
    run = TrialRun(killed=False, seconds=seconds, reached=reached, failure=failure, warnings=warnings)
    report.write_bytes(json.encode(run))


def rows(folder: Path) -> dict[str, Counter[str]]:
    """Return the rows of all tables in a folder, as JSON texts, without the columns whose values differ in each run."""
    return {str(log.parent.relative_to(folder)): _rows(log.parent) for log in folder.rglob("_delta_log")}


def _rows(table: Path) -> Counter[str]:
    files = DeltaTable(str(table)).file_uris()
    # delta-rs 1.6 aborts one process in five at its exit after `to_pyarrow_table`; reading the files does not.
    tables = [pq.read_table(file) for file in files]
    if not tables:
        return Counter()
    table_rows = pa.concat_tables(tables, promote_options="permissive")
    shown = table_rows.select([name for name in table_rows.schema.names if name not in _BY_RUN]).to_pylist()
    return Counter(orjson.dumps(row, option=orjson.OPT_SORT_KEYS, default=str).decode() for row in shown)
