"""Recoveries: a slice whose pages an API refuses is read again from its first page, or in smaller windows.

What a window is cut into becomes part of the positions in it, so a read that is cut in between goes on there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cdk.base.errors import FatalError, TransientError
from cdk.base.logs import logger
from cdk.base.values import JsonValue, Record
from cdk.declarative.model.plug_points import Incremental, Router, SliceReader
from cdk.rest.errors.outcome import ResetPagination, SplitWindow
from cdk.state.position import Checkpoint, Start
from cdk.state.slice import Slice
from cdk.state.window import Window
from cdk.streams.cursor import Side
from cdk.streams.page import Item, Page

_REMAINING = "windows"
"""The key of a position that says what is left of a slice: the window that is read now, and those behind it."""


@dataclass(frozen=True, slots=True)
class Reset:
    """When pages begin anew. action: from where. limit: after how many records, besides when the API asks for it."""

    action: Literal["RESET", "SPLIT_USING_CURSOR"]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """How a window is cut. halves: its two halves; None when it is too small. advice: for the reader of the error."""

    halves: Callable[[Window], tuple[Window, Window] | None]
    advice: str = ""


class RecoveringReader:
    """Reads slices as `inner` does, and in other pieces when that is refused."""

    def __init__(
        self, inner: SliceReader, incremental: Incremental | None, *, reset: Reset, split: Split | None
    ) -> None:
        self.router: Router | None = inner.router
        self.inner, self._reset, self._split = inner, reset, split
        # To look at the cursor's value of each record costs what records that stay text save.
        self._incremental = incremental if reset.action == "SPLIT_USING_CURSOR" else None

    def read(self, slice: Slice) -> Iterator[Item]:
        """Read a slice, and again from its first page or in smaller windows where the API refuses its pages.

        Raises FatalError: beginning anew would bring the same. Raises TransientError: a window cannot be cut more.
        """
        remaining, resets = _remaining(slice), 0
        while remaining:
            uncut = remaining == [slice.window]
            attempt = _Attempt(slice if uncut else replace(slice, window=remaining[0]), remaining, uncut=uncut)
            try:
                yield from attempt.read(self.inner, self._incremental, self._reset.limit)
            except SplitWindow as refused:
                remaining = self._cut(refused, attempt)
            except ResetPagination as refused:
                resets += 1
                remaining = self._anew(refused, attempt, resets)
            else:
                remaining = remaining[1:]
            if remaining:
                slice = replace(slice, start=Start())
                if remaining != [slice.window]:
                    yield Checkpoint({_REMAINING: [_written(window) for window in remaining]})

    def _cut(self, refused: SplitWindow, attempt: "_Attempt") -> list[Window | None]:
        window = attempt.slice.window
        if self._split is None or window is None:
            raise refused
        halves = self._split.halves(window)
        if halves is None:
            advice = f" {self._split.advice}" if self._split.advice else ""
            raise TransientError(
                f"the API refuses {_shown(window)}, which cannot be cut more: {refused.message}.{advice}"
            ) from refused
        logger.info("%s; reading %s and %s instead", refused.message, *map(_shown, halves))
        _warn(attempt)
        return [*halves, *attempt.remaining[1:]]

    def _anew(self, refused: ResetPagination, attempt: "_Attempt", resets: int) -> list[Window | None]:
        window = attempt.slice.window
        if self._reset.action == "RESET":
            if resets > 1:
                raise FatalError(f"{refused.message}; the pages began anew once, and it came to the same") from refused
            logger.info("%s; reading again from the first page", refused.message)
            _warn(attempt)
            return attempt.remaining
        reached = attempt.greatest
        if window is None or reached is None or reached == window.start:
            raise FatalError(
                f"{refused.message}; no record is newer than the start of {_shown(window)}, so it cannot be read "
                "from further on: choose a smaller `step`, or a higher limit"
            ) from refused
        logger.info("%s; reading on from %s", refused.message, reached)
        _warn(attempt)
        return [replace(window, start=reached), *attempt.remaining[1:]]


class _Attempt:
    """One try at a window. left: that window and those behind it. handed: records that went on."""

    def __init__(self, slice: Slice, remaining: list[Window | None], *, uncut: bool) -> None:
        self.slice, self.remaining, self._uncut = slice, remaining, uncut
        self.handed = 0
        self.greatest: object = None

    def read(self, inner: SliceReader, incremental: Incremental | None, limit: int | None) -> Iterator[Item]:
        """The items of the window. Raises ResetPagination: there are as many records as the limit says."""
        for item in inner.read(self.slice):
            match item:
                case Page(records=records, next=following):
                    self._see(records, incremental)
                    if limit is not None and self.handed >= limit:
                        yield Page(records, None)
                        raise ResetPagination(f"{self.handed} records were read, and the limit is {limit}")
                    yield item if self._uncut or following is None else Page(records, self._position(following))
                case Checkpoint():
                    yield item
                case _:
                    self._see([item], incremental)
                    yield item

    def _see(self, records: Sequence[Record], incremental: Incremental | None) -> None:
        self.handed += len(records)
        window = self.slice.window
        if incremental is None or window is None:
            return
        cursor = incremental.cursor
        values = [value for record in records if (value := record.get(cursor.field)) is not None]
        if values := [value for value in values if cursor.side(window, value) is not Side.AFTER]:
            self.greatest = cursor.greatest([self.greatest, cursor.greatest_of_records(values)])

    def _position(self, following: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        return {**following, _REMAINING: [_written(window) for window in self.remaining]}


def _remaining(slice: Slice) -> list[Window | None]:
    """The windows of a slice that are not read yet, the first of them from the slice's position on."""
    saved = (slice.start.cursor or {}).get(_REMAINING)
    if not saved or slice.window is None:
        return [slice.window]
    windows = [Window(start, end, until, last=False) for start, end, until in saved]
    return [*windows[:-1], replace(windows[-1], last=slice.window.last)]


def _written(window: Window | None) -> JsonValue:
    return None if window is None else [window.start, window.end, window.until]


def _shown(window: Window | None) -> str:
    return "the slice" if window is None else f"the window from {window.start} to {window.end}"


def _warn(attempt: _Attempt) -> None:
    if attempt.handed:
        logger.warning(
            "%s: of the %d records that were read of %s some come again",
            attempt.slice,
            attempt.handed,
            _shown(attempt.slice.window),
        )
