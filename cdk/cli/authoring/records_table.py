"""Records as a table for a terminal: the fields that fit beside each other, values in a line each and shortened."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cdk.base.values import FieldValue, Record, to_json
from cdk.protocol import Mask

_WIDEST = 40
_GAP = 1


def print_records(records: Sequence[Record], mask: Mask) -> None:
    """Print the records; in a last line the fields that the terminal has no room for."""
    if not records:
        return
    console = Console(highlight=False)
    fields = list(dict.fromkeys(name for record in records for name in record))
    columns = [[_cell(mask, record[name]) if name in record else "" for record in records] for name in fields]
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP, 0, 0))
    room, fitting = console.width, 0
    for name, cells in zip(fields, columns, strict=True):
        width = min(max([cell_len(name), *map(cell_len, cells)]), _WIDEST)
        room -= width + _GAP
        if room < 0 and fitting:
            break
        shown.add_column(Text(name), width=width, no_wrap=True, overflow="ellipsis")
        fitting += 1
    for row in zip(*columns[:fitting], strict=True):
        shown.add_row(*map(Text, row))
    console.print(shown)
    if rest := fields[fitting:]:
        console.print(Text(f"further fields: {', '.join(rest)}", "dim"), soft_wrap=True)


def _cell(mask: Mask, value: FieldValue) -> str:
    text = value if isinstance(value, str) else "" if value is None else to_json(value, str).decode()
    line = " ".join(mask(text).split())
    return line if cell_len(line) <= _WIDEST else f"{set_cell_size(line, _WIDEST - 1)}…"
