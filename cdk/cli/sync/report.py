"""`sync --report FILE --metrics FILE`: writes the report and the metrics of a run, however it ends."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

import click
from deltalake.exceptions import DeltaError
from msgspec.structs import replace

from cdk.base.errors import CdkError
from cdk.base.secret_masking import Secrets
from cdk.base.times.clock import system_clock
from cdk.sync.loop.runner import SyncRunner
from cdk.sync.reports.run_report import Report, RunFacts, run_report, write_report


class SyncReport:
    """Writes the report and the metrics when its block ends, also by an error; does nothing without their paths.

    runner: the run to report; None while the pipeline is being loaded. secrets: masked in both files.
    """

    def __init__(self, path: Path | None, secrets: Secrets, *, metrics: Path | None = None) -> None:
        """Raises UsageError, before anything is read: the folder of a file or the package for metrics is missing."""
        for option, file in (("--report", path), ("--metrics", metrics)):
            if file is not None and not file.parent.is_dir():
                why = f"'{option}': there is no folder {str(file.parent)!r}; create it, or choose another"
                raise click.UsageError(why)
        if metrics is not None and find_spec("prometheus_client") is None:
            raise click.UsageError("'--metrics': its package is missing: pip install 'spark-cdk[metrics]'")
        self.runner: SyncRunner | None = None
        self._path, self._metrics, self._secrets = path, metrics, secrets
        self._facts = RunFacts(started=system_clock())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path is None and self._metrics is None:
            return
        report = self._report(error)
        for path, write in ((self._path, write_report), (self._metrics, self._write_metrics)):
            if path is not None:
                self._write(path, partial(write, path, report), ends_by_itself=error is None)

    def _report(self, error: BaseException | None) -> Report:
        result = None if self.runner is None else self.runner.result
        facts = replace(self._facts, ended=system_clock()) if result is None else result.run
        facts = facts if error is None else facts.ended_by(error)
        config_mask = facts.mask
        facts = replace(facts, mask=lambda text: self._secrets.mask(config_mask(text)))
        return run_report(facts, () if result is None else result.streams)

    def _write_metrics(self, path: Path, report: Report) -> None:
        # Its package is only required for runs with `--metrics`.
        from cdk.sync.reports.prometheus_metrics import write_metrics  # noqa: PLC0415

        times = {} if self.runner is None else self.runner.table_times()
        write_metrics(path, report, {self._secrets.mask(name): each for name, each in times.items()})

    def _write(self, path: Path, write: Callable[[], None], *, ends_by_itself: bool) -> None:
        """Write a file. A failure becomes the error of the run, or is printed if the run already has an error."""
        try:
            write()
        except (OSError, CdkError, DeltaError) as refused:
            why = refused.strerror if isinstance(refused, OSError) else refused
            problem = self._secrets.mask(f"{path}: could not be written: {why}")
            if ends_by_itself:
                raise click.ClickException(problem) from refused
            click.echo(problem, err=True)
