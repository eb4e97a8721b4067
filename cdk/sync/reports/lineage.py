"""Lineage: sends OpenLineage events about what a sync reads and writes, if the OpenLineage client is configured.

A run sends one START, when its streams are known, and one COMPLETE, FAIL or ABORT. The client (`openlineage-python`,
the extra `lineage`) is imported only if it is configured, because that takes half a second. Its errors never end a
sync; the first one is logged as a warning.

Tables are named as in https://openlineage.io/docs/spec/naming, so that they join with the graphs of other tools.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from deltalake import Schema
from msgspec import Struct

from cdk.base.logs import logger
from cdk.base.secret_masking import HIDDEN, Secrets
from cdk.base.times.clock import Clock
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.storage.folder import Folder
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tasks.messages import Failure

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent
    from openlineage.client.transport import Transport


class Running(Protocol):
    """A stream of a sync."""

    @property
    def table(self) -> StreamTable | None:
        """The table that its rows are written to; None for a stream that is not read."""

    @property
    def current_report(self) -> StreamReport:
        """The report of what the stream has read and written so far."""


class NotRead(Struct, frozen=True):
    """A stream that is not read, because it is redundant, or its table or schema is unusable."""

    current_report: StreamReport
    table: None = None


_TIMEOUT = 3.0
"""Seconds that a server may take to respond; an event is sent at most twice."""

_SECRET = re.compile(r"OPENLINEAGE\w*(AUTH|KEY|TOKEN|SECRET|PASSWORD|HEADER)")
_USER = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def configured(environ: Mapping[str, str]) -> bool:
    """Whether the OpenLineage client is configured, by variables or an `openlineage.yml` where it looks for one."""
    if environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    files = (Path.cwd() / "openlineage.yml", Path.home() / ".openlineage" / "openlineage.yml")
    named = (name in {"OPENLINEAGE_URL", "OPENLINEAGE_CONFIG"} or name.startswith("OPENLINEAGE__") for name in environ)
    return any(named) or any(file.is_file() for file in files)


@contextmanager
def lineage(
    pipeline: str,
    source: str,
    streams: Sequence[tuple[StreamPlan, Running]],
    *,
    mask: Callable[[str], str],
    clock: Clock,
) -> Iterator[None]:
    """Send events about what the block, a sync of `streams`, reads and writes, if the client is configured.

    source: the connector, used as the namespace of the inputs. mask: masks secrets in error messages. Raises only what
    the block raises.
    """
    if not configured(os.environ):
        yield
        return
    events = _LineageRun(pipeline, source, streams, mask, clock)
    events.emit("START")
    try:
        yield
    except KeyboardInterrupt as error:
        events.emit("ABORT", Failure.of(error).message)
        raise
    except BaseException as error:
        events.emit("FAIL", Failure.of(error).message)
        raise
    reports = [run.current_report for _, run in streams]
    statuses = {report.status for report in reports}
    kind = "FAIL" if Status.FAILED in statuses else "COMPLETE" if statuses <= {Status.DONE} else "ABORT"
    failures = [f"{report.name}: {report.failure.message}" for report in reports if report.failure is not None]
    events.emit(kind, "\n".join(failures))


class _LineageRun:
    """The events of one run, and the client that sends them."""

    def __init__(
        self,
        pipeline: str,
        source: str,
        streams: Sequence[tuple[StreamPlan, Running]],
        mask: Callable[[str], str],
        clock: Clock,
    ) -> None:
        self._pipeline, self._source, self._streams, self._mask, self._clock = pipeline, source, streams, mask, clock
        self._id, self._client, self._warned = str(uuid4()), None, False
        with self._guarded():
            from openlineage.client import OpenLineageClient  # noqa: PLC0415 - see the module

            self._client = OpenLineageClient()
            _limit_waits(self._client.transport)

    def emit(self, kind: str, error: str = "") -> None:
        """Send an event. error: message for the last event, if the run failed."""
        if self._client is not None:
            with self._guarded():
                self._client.emit(self._event(kind, error))
            if kind != "START":
                with self._guarded():
                    self._client.close(_TIMEOUT)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Suppress errors, and warn about the first one, including those that the client only logs."""
        collector = _WarningCollector()
        log = logging.getLogger("openlineage")
        log.addHandler(collector)
        try:
            yield
        except ImportError:
            text = "the client is not installed; install spark-cdk[lineage] or set OPENLINEAGE_DISABLED=true"
            collector.messages.append(text)
        except Exception as error:  # noqa: BLE001 - must not end the sync
            collector.messages.append(f"{type(error).__name__}: {error}")
        finally:
            log.removeHandler(collector)
        if collector.messages and not self._warned:
            self._warned = True
            keys = Secrets(value for name, value in os.environ.items() if _SECRET.match(name))
            why = _USER.sub(HIDDEN, keys.mask(self._mask(collector.messages[0])))
            logger.warning("not all events of this sync could be sent to OpenLineage; the sync continues: %s", why)

    def _event(self, kind: str, error: str) -> "RunEvent":
        from openlineage.client import event_v2 as ol  # noqa: PLC0415 - see the module
        from openlineage.client import facet_v2 as facets  # noqa: PLC0415

        inputs, outputs = [], []
        for plan, run in self._streams:
            stream, report = plan.stream, run.current_report
            inputs.append(ol.InputDataset(self._source, ".".join(filter(None, (stream.namespace, stream.name)))))
            table = ol.OutputDataset(*_name(plan.root))
            if run.table is not None:
                columns = [
                    facets.schema_dataset.SchemaDatasetFacetFields(field.name, field.type.type)
                    for field in Schema.from_arrow(run.table.schema).fields
                ]
                table.facets = {
                    "schema": facets.schema_dataset.SchemaDatasetFacet(columns),
                    "version": facets.dataset_version_dataset.DatasetVersionDatasetFacet(str(run.table.version)),
                }
            # The rows of an overwrite are not in its table before it is complete.
            if kind != "START" and not report.hidden:
                statistics = facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
                table.outputFacets = {"outputStatistics": statistics(report.written, report.bytes, report.files)}
            outputs.append(table)
        message = facets.error_message_run.ErrorMessageRunFacet(self._mask(error), "PYTHON")
        return ol.RunEvent(
            eventType=ol.RunState(kind),
            eventTime=self._clock().isoformat(),
            producer=f"pkg:pypi/spark-cdk.{version('spark-cdk')}",
            run=ol.Run(self._id, {"errorMessage": message} if error else {}),
            job=ol.Job(os.environ.get("OPENLINEAGE_NAMESPACE", "spark-cdk"), self._pipeline),
            inputs=inputs,
            outputs=outputs,
        )


class _WarningCollector(logging.Handler):
    """Collects warnings of the client, which without a handler would go to stderr, including secrets."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def _limit_waits(transport: "Transport") -> None:
    """Limit how long an HTTP transport waits.

    By default, the client tries six times, five seconds each, and sleeps as long as a busy server requests.
    """
    from openlineage.client.transport.composite import CompositeTransport  # noqa: PLC0415 - see the module
    from openlineage.client.transport.http import HttpTransport  # noqa: PLC0415

    match transport:
        case CompositeTransport():
            for part in transport.transports:
                _limit_waits(part)
        case HttpTransport():
            transport.timeout = min(transport.timeout, _TIMEOUT)
            transport.config.retry = {**transport.config.retry, "total": 1, "respect_retry_after_header": False}
        case _:
            pass


def _name(table: Folder) -> tuple[str, str]:
    """Return namespace and name of a table: the bucket and the key, or `file` and the path."""
    scheme, _, rest = str(table).rpartition("://")
    bucket, _, key = rest.partition("/")
    return (f"{scheme.replace('s3a', 's3')}://{bucket}", key) if scheme else ("file", str(Path(rest).absolute()))
