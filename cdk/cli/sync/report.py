"""`sync --report FILE`: the report of the run, written however it ends."""

from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import click

from cdk.base.secret_masking import Secrets
from cdk.base.times.clock import Clock, system_clock
from cdk.cli.sync.signals import CTRL_C
from cdk.sync.loop.runner import SyncRunner
from cdk.sync.reports.run_report import RunFacts, run_report, write_report
from cdk.sync.tasks.messages import Failure


class SyncReport:
    """Writes the report when its block ends, in whatever way; without a path it does nothing.

    runner: what to report of; None while the pipeline is still being looked at. secrets: hidden in the report.
    """

    def __init__(self, path: Path | None, secrets: Secrets, *, clock: Clock = system_clock) -> None:
        """Raises UsageError: the report cannot lie there; found before anything is read."""
        if path is not None and not path.parent.is_dir():
            raise click.UsageError(f"'--report': there is no folder {str(path.parent)!r}; make it, or choose another")
        self.runner: SyncRunner | None = None
        self._path, self._secrets, self._clock = path, secrets, clock
        self._facts = RunFacts(started=clock())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._path is None:
            return
        result = None if self.runner is None else self.runner.result
        facts = replace(self._facts, ended=self._clock()) if result is None else result.run
        match error:
            case None:
                pass
            case KeyboardInterrupt():
                facts = replace(facts, interrupted=str(error) or CTRL_C)
            case _:
                facts = replace(facts, failure=Failure.of(error))
        config_mask = facts.mask
        facts = replace(facts, mask=lambda text: self._secrets.mask(config_mask(text)))
        try:
            write_report(self._path, run_report(facts, () if result is None else result.streams))
        except OSError as refused:
            problem = f"{self._path}: the report could not be written: {refused.strerror}"
            if error is None:
                raise click.ClickException(problem) from refused
            click.echo(problem, err=True)
