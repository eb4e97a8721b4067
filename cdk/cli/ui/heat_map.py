"""Where many partitions stand, as the cells of a picture: the later the cursor, the stronger the colour."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cdk.base.values import JsonValue, Stored, canonical
from cdk.lake.admin.diff import shown
from cdk.state.position import Checkpoint, Done, OpenSlice, Position, Start
from cdk.state.position_json import position_of
from cdk.state.stored_positions import PartitionEntries

COLUMNS, SIZE = 40, 18
"""Cells in a row, and the side of one in pixels."""
HEATS = 5
"""Colours of partitions that have a cursor."""


@dataclass(frozen=True)
class Cell:
    """A square. kind: `start`, `done`, or `heat1` to `heat5`. title: what it is, in words."""

    x: int
    y: int
    kind: str
    title: str


@dataclass(frozen=True)
class OpenWindows:
    """The windows of a partition that an interrupted read left open."""

    partition: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class HeatMap:
    """Some partitions of a state. total: how many there are in all. width, height: of the picture, in pixels."""

    total: int
    width: int
    height: int
    cells: Sequence[Cell]
    windows: Sequence[OpenWindows]


def heat_map(state: Stored, first: int, most: int) -> HeatMap:
    """The partitions from number `first` on, at most so many; no others are decoded. Raises BadState."""
    total, entries = _entries(state, first, most)
    positions = [
        (canonical(entry.get("partition", {})), position_of(entry.get("cursor"), "state")) for entry in entries
    ]
    ranks = _ranks([_cursor(position) for _, position in positions])
    cells = [
        Cell(*_corner(number), _kind(position, ranks), f"{name}: {_words(position)}")
        for number, (name, position) in enumerate(positions)
    ]
    return HeatMap(total, COLUMNS * SIZE, -(-len(cells) // COLUMNS) * SIZE, cells, [*_open_windows(positions)])


def _entries(state: Stored, first: int, most: int) -> tuple[int, Sequence[Mapping[str, JsonValue]]]:
    match state:
        case {"states": PartitionEntries() as entries}:
            return len(entries), entries.page(first, most)
        case {"states": list() as entries} | (list() as entries):
            return len(entries), entries[first : first + most]
        case None:
            return 0, []
        case _:
            return 1, [{"cursor": state}][first : first + most]


def _corner(number: int) -> tuple[int, int]:
    return number % COLUMNS * SIZE, number // COLUMNS * SIZE


def _cursor(position: Position) -> JsonValue:
    """What a partition is compared by: the first value of its cursor."""
    return next(iter(position.cursor.values()), None) if isinstance(position, Checkpoint) else None


def _order(value: JsonValue) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return (not number, float(value) if isinstance(value, int | float) else 0.0, "" if number else shown(value))


def _ranks(values: Sequence[JsonValue]) -> Mapping[str, int]:
    """How late each value is among them, from 1 to HEATS."""
    distinct = {canonical(value): value for value in values if value is not None}
    ordered = sorted(distinct, key=lambda text: _order(distinct[text]))
    return {text: 1 + (HEATS - 1) * rank // max(1, len(ordered) - 1) for rank, text in enumerate(ordered)}


def _kind(position: Position, ranks: Mapping[str, int]) -> str:
    match position:
        case Start():
            return "start"
        case Done():
            return "done"
        case _:
            return f"heat{ranks.get(canonical(_cursor(position)), 1)}"


def _words(position: Position) -> str:
    match position:
        case Start():
            return "at its start"
        case Done():
            return "read to the end"
        case Checkpoint(cursor):
            return ", ".join(f"{name} {shown(value)}" for name, value in cursor.items())


def _open_windows(positions: Sequence[tuple[str, Position]]) -> Iterator[OpenWindows]:
    for name, position in positions:
        if isinstance(position, Checkpoint) and position.resume is not None and position.resume.open:
            yield OpenWindows(name, [_window(number, each) for number, each in enumerate(position.resume.open)])


def _window(number: int, item: OpenSlice) -> Cell:
    window = f"{shown(item.window.start)} to {shown(item.window.end)}"
    return Cell(*_corner(number), _kind(item.position, {}), f"{window}: {_words(item.position)}")
