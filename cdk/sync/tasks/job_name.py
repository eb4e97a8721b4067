"""What Spark's own pages call the job of a task."""

from collections.abc import Iterable

from cdk.base.values import FieldValue
from cdk.state.slice import Slice

_NAMED = 3
"""Streams in the name of a job."""

_LONGEST = 40
"""Characters of a value in the name of a job."""


def job_name(pipeline: str, slices: Iterable[tuple[str, Slice]]) -> str:
    """The name of a task's job: `shop: orders 2024-01-01..2024-01-31, users`.

    slices: in the order they were planned, each with the name of its stream. Partitions are left out: a
    task has thousands of them. At most three streams are named.
    """
    by_stream: dict[str, list[Slice]] = {}
    for name, slice in slices:
        by_stream.setdefault(name, []).append(slice)
    named = [f"{name}{_stretch(slices_of_stream)}" for name, slices_of_stream in list(by_stream.items())[:_NAMED]]
    more = f" ({len(by_stream) - _NAMED} more)" if len(by_stream) > _NAMED else ""
    return f"{pipeline}: {', '.join(named)}{more}"


def _stretch(slices: list[Slice]) -> str:
    windows = [slice.window for slice in slices if slice.window is not None]
    if not windows:
        return ""
    # Windows are handed out oldest first, and those of one task may belong to several partitions.
    start, end = windows[0].start, windows[-1].end
    return f" {_short(start)}..{'' if end is None else _short(end)}"


def _short(value: FieldValue) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
