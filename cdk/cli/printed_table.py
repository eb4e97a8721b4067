"""The tables that commands print: their style, and their width where no terminal shows them."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

_FILE_WIDTH = 200
"""The width at which a file or a log is read is unknown; figures must not be truncated there."""


def wide_console(console: Console | None = None, width: int = _FILE_WIDTH) -> Console:
    """The console of standard output, or another one, with at least this width unless it is a terminal."""
    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, width)
    return console


def plain_table() -> Table:
    """A table without columns yet, with a line below its head and no frame."""
    return Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))


def add_figures(table: Table, *names: str) -> None:
    """Add columns for figures, which are never wrapped."""
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
