"""What Spark's own pages call the job of an epoch."""

from collections.abc import Iterable

from cdk.base.values import Json
from cdk.state.slice import Slice

_NAMED = 3
_LONGEST = 40


def job_name(pipeline: str, slices: Iterable[tuple[str, Slice]]) -> str:
    """The pipeline, and its streams with the stretch they are read in: `shop: orders 2024-01-01..2024-01-31, users`.

    slices: the epoch's, in the order they were planned, each with the name of its stream. Partitions are left out: a
    job has thousands of them. At most three streams are named.
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
    # Windows are handed out oldest first, and those of one epoch may belong to several partitions.
    start, end = windows[0].start, windows[-1].end
    return f" {_short(start)}..{'' if end is None else _short(end)}"


def _short(value: Json) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
