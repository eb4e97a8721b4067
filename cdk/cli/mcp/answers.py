"""The answers of the tools: the JSON of the commands, shortened for a conversation, with a next step."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, JsonValue

from cdk.testing.proving.proof import Kill

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
"""JSON in which long strings, objects and lists are shortened."""


class AnswerPart(BaseModel, extra="forbid"):
    """A part of an answer with all members of the command's JSON; undeclared ones fail instead of being dropped."""


class Answer(AnswerPart):
    """The answer of a tool."""

    next: str = Field(default="", description="What to do next.")


class NewConnector(Answer):
    """A new connector. notes: what was guessed, and what remains of an earlier draft."""

    folder: str
    files: Sequence[str]
    notes: Sequence[str]


class FileProblem(AnswerPart):
    """A mistake in a file."""

    file: str
    line: int | None
    column: int | None
    path: str
    message: str


class FileChecked(AnswerPart):
    """A file with its kind and its mistakes."""

    file: str
    kind: str
    errors: Sequence[FileProblem]
    warnings: Sequence[FileProblem]


class Validated(Answer):
    """Whether files are valid, and the mistakes in each."""

    valid: bool
    files: Sequence[FileChecked]


class PageAnswer(AnswerPart):
    """A page: the requests to plan its slice and to read it, the path of its records, and why there is a next page."""

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
    """The first records of a stream, with the requests and responses behind them."""

    stream: str
    complete: bool
    pages: Sequence[PageAnswer]
    records: Sequence[Shown]


class Inferred(Answer):
    """The schema of a stream, extended by undeclared fields of its first records."""

    stream: str
    undeclared: Sequence[str]
    json_schema: Shown


class PlannedStream(AnswerPart):
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
    """What a sync of a pipeline would do. notes: what it would do besides reading."""

    pipeline: str
    target: str
    streams: Sequence[PlannedStream]
    expected_seconds: Shown
    notes: Sequence[str]


class Proven(Answer):
    """Whether killed syncs lose no rows and duplicate none."""

    proven: bool
    rows: Mapping[str, int]
    commits: int
    problems: Sequence[str]
    warnings: Sequence[str]
    notes: Sequence[str]
    kills: Sequence[Kill]


class StreamStateAnswer(AnswerPart):
    """The state of a stream. positions: the first cursors and page tokens of its partitions; further: how many more."""

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
    """The states of a pipeline's streams."""

    pipeline: str
    streams: Sequence[StreamStateAnswer]
