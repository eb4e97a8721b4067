"""`--crash-report FOLDER` of `sync` and `read`: writes a file for each unexpected error, see `cdk.sources.crashes`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from cdk.base.logs import logger
from cdk.base.secret_masking import Secrets
from cdk.sources.crashes import crash_text, write_crash_report

crash_report_option = click.option(
    "--crash-report",
    "crash_folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write a file on each unexpected error: traceback, locals, versions, config; without secrets.",
)


class CrashReports:
    """Writes the crash reports of a command into a folder; does nothing without a folder.

    name: of the pipeline or connector. config: the connector's. facts: returns further facts about the run.
    """

    def __init__(self, folder: Path | None, secrets: Secrets) -> None:
        self._folder, self._secrets = folder, secrets
        self.name, self.config = "", dict[str, object]()
        self.facts: Callable[[], Mapping[str, object]] = dict
        self.crashes: Callable[[], Mapping[str, str]] = dict
        """Returns the `crash_text` of each failed stream, by stream."""

    @property
    def secrets(self) -> Secrets | None:
        """The secrets that crash reports mask; None if no crash reports are written."""
        return None if self._folder is None else self._secrets

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write a report of the error that ends the block, and one for each failed stream when the block ends."""
        try:
            yield
        except Exception as error:
            self.write("", error)
            raise
        finally:
            for stream, crash in self.crashes().items():
                self._write(stream, crash)

    def write(self, stream: str, error: Exception) -> None:
        """Write a report of an error, if it is unexpected. stream: the stream that raised it; empty for no stream."""
        if self._folder is not None:
            self._write(stream, crash_text(error, self._secrets))

    def _write(self, stream: str, crash: str) -> None:
        if self._folder is None or not crash:
            return
        facts = {"of": self.name, "stream": stream, **self.facts()}
        name = "-".join(filter(None, (self.name, stream)))
        try:
            path = write_crash_report(self._folder, name, crash, facts=facts, config=self.config, secrets=self._secrets)
            logger.warning("%s: crash report: %s", stream or self.name, path)
        except OSError as error:
            logger.warning("%s: no crash report could be written: %s", stream or self.name, error)
