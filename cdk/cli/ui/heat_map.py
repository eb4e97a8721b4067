"""A heat map of the positions of many partitions: the later the cursor, the stronger the colour of the cell."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from cdk.base.values import JsonValue, Stored, canonical
from cdk.lake.admin.diff import shown
from cdk.state.layers.layered_map import LayeredMap
from cdk.state.position import Checkpoint, Done, OpenSlice, Position, Start
from cdk.state.position_json import position_of
from cdk.state.stored_positions import PartitionEntries

COLUMNS, SIZE = 40, 18
"""The number of cells in a row, and the side of a cell in pixels."""
HEATS = 5
"""The number of colours for partitions with a cursor."""
_WITH_WINDOWS, _WINDOWS = 10, 200
"""How many partitions of a page show their open windows, and how many windows of each are shown."""


class Cell(Struct, frozen=True):
    """A square of the picture. kind: `start`, `done`, or `heat1` to `heat5`. title: its description."""

    x: int
    y: int
    kind: str
    title: str


class OpenWindows(Struct, frozen=True):
    """The windows of a partition that an interrupted read left open. further: how many more are not shown."""

    partition: str
    cells: Sequence[Cell]
    further: int


class HeatMap(Struct, frozen=True):
    """A page of the partitions of a state. total: how many the state has. width, height: of the picture, in pixels.

    windows: the open windows of the first partitions with any. further_windows: how many more partitions have some.
    before, after: the keys at which the previous and the next page begin; None if there is no such page.
    """

    total: int
    width: int
    height: int
    cells: Sequence[Cell]
    windows: Sequence[OpenWindows]
    further_windows: int
    before: str | None
    after: str | None


def heat_map(state: Stored, start: str, most: int) -> HeatMap:
    """Draw at most `most` partitions, in the order of their keys; others are not decoded. Raises BadState.

    start: the first key, as JSON of a partition or a prefix of it; empty for the first partition.
    """
    entries = _entries(state)
    page = [*islice(entries.sorted_from(start), most + 1)]
    earlier = [key for key, _ in islice(entries.texts.sorted_from(start, back=True), most)]
    positions = [(name, position_of(entry.get("cursor"), "state")) for name, entry in page[:most]]
    ranks = _ranks([_cursor(position) for _, position in positions])
    cells = [
        Cell(*_corner(number), _kind(position, ranks), f"{name}: {_words(position)}")
        for number, (name, position) in enumerate(positions)
    ]
    windows = [*_open_windows(positions)]
    return HeatMap(
        len(entries),
        COLUMNS * SIZE,
        -(-len(cells) // COLUMNS) * SIZE,
        cells,
        windows[:_WITH_WINDOWS],
        len(windows[_WITH_WINDOWS:]),
        earlier[-1] if earlier else None,
        page[most][0] if len(page) > most else None,
    )


def _entries(state: Stored) -> PartitionEntries:
    """The partitions of a state; for a state without partitions, a single one for the whole stream."""
    match state:
        case {"states": PartitionEntries() as entries}:
            return entries
        case {"states": list() as items} | (list() as items):
            pass
        case None:
            items = []
        case dict():
            items = [{"cursor": {name: value for name, value in state.items() if name != "parent_state"}}]
        case _:
            items = [{"cursor": state}]
    pairs = ((item.get("partition", {}), {"cursor": item.get("cursor")}) for item in items)
    return PartitionEntries(LayeredMap.of({canonical(fields): canonical(entry) for fields, entry in pairs}))


def _corner(number: int) -> tuple[int, int]:
    return number % COLUMNS * SIZE, number // COLUMNS * SIZE


def _cursor(position: Position) -> JsonValue:
    """The value that partitions are ranked by: the first one of the cursor."""
    return next(iter(position.cursor.values()), None) if isinstance(position, Checkpoint) else None


def _order(value: JsonValue) -> tuple[bool, float, str]:
    return (False, float(value), "") if isinstance(value, int | float) else (True, 0.0, shown(value))


def _ranks(values: Sequence[JsonValue]) -> Mapping[str, int]:
    """Rank values from 1 to HEATS, by their canonical JSON; the latest has HEATS, even if it is the only one."""
    distinct = {canonical(value): value for value in values if value is not None}
    latest_first = sorted(distinct, key=lambda text: _order(distinct[text]), reverse=True)
    most = max(1, len(latest_first) - 1)
    return {text: HEATS - (HEATS - 1) * rank // most for rank, text in enumerate(latest_first)}


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
            shown_ = [_window(number, each) for number, each in enumerate(position.resume.open[:_WINDOWS])]
            yield OpenWindows(name, shown_, len(position.resume.open[_WINDOWS:]))


def _window(number: int, item: OpenSlice) -> Cell:
    window = f"{shown(item.window.start)} to {shown(item.window.end)}"
    return Cell(*_corner(number), _kind(item.position, {}), f"{window}: {_words(item.position)}")
