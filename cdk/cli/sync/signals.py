"""How a sync ends: by errors or signals, the first of which ends it at its next checkpoints; and its exit codes."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from cdk.base.process.interruption import CTRL_C
from cdk.base.secret_masking import Secrets
from cdk.cli.command_errors import LIMIT_REACHED, plain_errors
from cdk.cli.protocol.protocol_command import handling
from cdk.cli.sync.display import Display
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.reports.stream_report import Status

_STDERR = 2


class Signals:
    """The signals that a sync has received. Used by the main thread only."""

    def __init__(self) -> None:
        self.caught = 0
        """The last signal; 0 before the first one."""
        self.interrupt: Callable[[str], bool] = lambda _: False
        """Ends the sync at its next checkpoints. Returns False if it cannot, so that the sync must end at once."""
        self.display: Display | None = None

    def stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """End the sync at its next checkpoints, or at once by KeyboardInterrupt."""
        self.caught = number
        why = CTRL_C if number == signal.SIGINT else signal.Signals(number).name
        if not self.interrupt(why):
            raise KeyboardInterrupt(why)
        if self.display is None or not self.display.note_ending(why):
            # Not through `sys.stderr`: the signal may have interrupted a write to it.
            os.write(_STDERR, f"{why}: ending at the next checkpoints; a second signal ends it at once\n".encode())


class _Interrupted(click.ClickException):
    """A signal ended the sync at once. The exit code is the one that shells use for the signal."""

    def __init__(self, number: int) -> None:
        how = "terminated (SIGTERM)" if number == signal.SIGTERM else "interrupted"
        super().__init__(f"{how}; what was committed is safe: run the sync again to continue")
        self.exit_code = 128 + number  # type: ignore[misc]  # click declares it on the class, and reads it from here


@contextmanager
def listening(secrets: Secrets) -> Iterator[Signals]:
    """Let signals end the sync in the block, and turn its errors into messages, secrets masked."""
    signals = Signals()
    with plain_errors(secrets):
        try:
            with handling(signals.stop):
                yield signals
        except KeyboardInterrupt:
            raise _Interrupted(signals.caught or signal.SIGINT) from None


def exit_code(result: SyncResult, caught: int) -> int:
    """The exit code of a sync that has ended. caught: the signal that interrupted it; 0 without one."""
    if result.ok:
        return 0
    if caught:
        return 128 + caught
    failed = any(report.status is Status.FAILED for report in result.streams)
    return LIMIT_REACHED if result.run.interrupted and not failed else 1
