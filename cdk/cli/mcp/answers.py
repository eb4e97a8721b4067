"""What the tools answer: the JSON of the commands, cut to what a conversation has room for, with what to do next."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, JsonValue

_LONGEST_TEXT, _MOST_ITEMS = 2000, 50


def _shortened(value: object) -> object:
    match value:
        case str() if len(value) > _LONGEST_TEXT:
            return f"{value[:_LONGEST_TEXT]}… {len(value) - _LONGEST_TEXT:,} more characters"
        case Mapping():
            items = [(name, _shortened(inner)) for name, inner in list(value.items())[:_MOST_ITEMS]]
            more = len(value) - len(items)
            return {**dict(items), **({"…": f"{more:,} more"} if more else {})}
        case list() | tuple():
            more = len(value) - _MOST_ITEMS
            return [*map(_shortened, value[:_MOST_ITEMS]), *([f"… {more:,} more"] if more > 0 else [])]
        case _:
            return value


Shown = Annotated[JsonValue, BeforeValidator(_shortened)]
"""JSON without its ends where it is long."""


class Part(BaseModel, extra="forbid"):
    """A part of an answer, with all that the command's JSON has: what is not named here fails, and is not left out."""


class Answer(Part):
    """An answer of a tool."""

    next: str = Field(default="", description="What to do next.")


class NewConnector(Answer):
    """A connector to begin with. notes: what of it was guessed, and what of an earlier draft stays."""

    folder: str
    files: Sequence[str]
    notes: Sequence[str]


class FileProblem(Part):
    """One thing that is wrong in a file."""

    file: str
    line: int | None
    column: int | None
    path: str
    message: str


class FileChecked(Part):
    """A file, what it is, and what is wrong in it."""

    file: str
    kind: str
    errors: Sequence[FileProblem]
    warnings: Sequence[FileProblem]


class Validated(Answer):
    """Whether files are valid, and the mistakes in each."""

    valid: bool
    files: Sequence[FileChecked]


class PageAnswer(Part):
    """A page: what was sent to find its slice and for it, where records were found, and how it goes on."""

    slice: str
    planning: Sequence[Shown]
    requests: Sequence[Shown]
    path: Sequence[str] | None
    extracted: int | None
    selected: int | None
    records: int
    next: Shown
    why: str
    warning: str
    error: str | None


class Previewed(Answer):
    """The first records of a stream, and how they came about."""

    stream: str
    complete: bool
    pages: Sequence[PageAnswer]
    records: Sequence[Shown]


class Inferred(Answer):
    """The schema of a stream with the fields of its first records that it does not declare."""

    stream: str
    undeclared: Sequence[str]
    json_schema: Shown


class PlannedStream(Part):
    """What a sync would do with a stream."""

    stream: str
    sync_mode: str
    write_mode: str
    writes: str
    state: Shown
    slices: int
    partitions: int
    new_partitions: int | None
    quiet_partitions: int | None
    changes: Sequence[str]
    expected_rows: Shown
    first: Shown
    last: Shown
    complete: bool
    least_requests: int | None
    requests_to_plan: int
    state_afterwards: Shown
    error: str | None


class PlanAnswer(Answer):
    """What a sync of a pipeline would do, and, in notes, besides reading."""

    pipeline: str
    target: str
    streams: Sequence[PlannedStream]
    expected_seconds: Shown
    notes: Sequence[str]


class KilledSync(Part):
    """A sync that was killed at a point, and what another one that resumed made of it."""

    point: str
    lost: int
    doubled: int
    changed: int
    receipts: int
    problems: Sequence[str]


class Proven(Answer):
    """Whether syncs that are killed lose nothing and repeat nothing."""

    proven: bool
    rows: Mapping[str, int]
    commits: int
    problems: Sequence[str]
    warnings: Sequence[str]
    notes: Sequence[str]
    kills: Sequence[KilledSync]


class StreamStateAnswer(Part):
    """Where a stream stands. positions: its cursors and page tokens, the first of many; further: how many more."""

    stream: str
    path: str
    number: int | None
    complete: bool | None
    restored: bool
    lost: str | None
    generation: int | None
    sync_mode: str | None
    write_mode: str | None
    sync: str | None
    rows: int | None
    source: Shown
    retained: Shown
    positions: Sequence[str]
    further: int


class States(Answer):
    """Where the streams of a pipeline stand."""

    pipeline: str
    streams: Sequence[StreamStateAnswer]
