"""The live progress of a read, on the terminal at standard error."""

import os
import time
from collections.abc import Callable
from typing import Self

from msgspec import Struct
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cdk.base.values import JsonValue, canonical
from cdk.cli.output import STDOUT
from cdk.engine.protocol_read import ReadObserver
from cdk.protocol.catalog import StreamDescriptor
from cdk.protocol.reports import Mask, error_text

_EVERY = 0.2
_STATE_WIDTH = 48


class _Row(Struct):
    started: float
    ended: float | None = None
    records: int = 0
    state: JsonValue = None
    error: str | None = None


class Progress(ReadObserver):
    """A table with a row per stream: records, rate, last state; redrawn at most five times a second.

    If standard output is a terminal too, only the final table is drawn. mask: masks secrets in errors.
    """

    def __init__(
        self, mask: Mask, console: Console | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._mask, self._clock = mask, clock
        self._rows: dict[StreamDescriptor, _Row] = {}
        self._drawn = 0.0
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._moving = not os.isatty(STDOUT)

    def __enter__(self) -> Self:
        if self._moving:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._moving:
            self._live.update(self._table(), refresh=True)
            self._live.stop()
        else:
            self._console.print(self._table())

    def show_line(self, text: str) -> None:
        """Print a line above the table; does nothing if standard output is a terminal, which already shows the log."""
        if self._moving:
            self._console.print(Text(text))

    def started(self, stream: StreamDescriptor) -> None:
        self._rows[stream] = _Row(self._clock())
        self._draw()

    def records(self, stream: StreamDescriptor, count: int, size: int) -> None:  # noqa: ARG002
        self._rows[stream].records += count
        self._draw()

    def state(self, stream: StreamDescriptor, blob: JsonValue) -> None:
        self._rows[stream].state = blob
        self._draw()

    def ended(self, stream: StreamDescriptor, error: BaseException | None) -> None:
        row = self._rows[stream]
        row.ended = self._clock()
        row.error = None if error is None else self._mask(error_text(error))
        self._draw()

    def _draw(self) -> None:
        if self._moving and self._clock() - self._drawn >= _EVERY:
            self._drawn = self._clock()
            self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        table.add_column("stream")
        table.add_column("records", justify="right")
        table.add_column("per second", justify="right")
        table.add_column("last state", no_wrap=True, overflow="ellipsis", max_width=_STATE_WIDTH)
        table.add_column("")
        for stream, row in self._rows.items():
            seconds = max((self._clock() if row.ended is None else row.ended) - row.started, 0.001)
            state = "" if row.state is None else canonical(row.state)
            # Truncated here, because rich takes longer to lay out the state of ten thousand partitions than they take
            # to read.
            table.add_row(
                Text(str(stream)),
                f"{row.records:,}",
                f"{row.records / seconds:,.0f}",
                Text(state[:_STATE_WIDTH]),
                _outcome(row),
            )
        return table


def _outcome(row: _Row) -> Text:
    if row.error is not None:
        return Text(row.error, "red")
    return Text("reading", "cyan") if row.ended is None else Text("complete", "green")
