"""Recoveries: a slice whose pages the API refuses is read again from its first page, or in smaller windows.

The remaining windows, and a summary of the pages read so far, become part of the positions in the slice, so an
interrupted read resumes as if it had not been interrupted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import FatalError, TransientError, stale_page_token
from cdk.base.logs import logger
from cdk.base.values import FieldValue, JsonValue, Record, as_object
from cdk.declarative.model.stream_plug_points import Incremental, Router, SliceReader
from cdk.rest.errors.outcome import ResetPagination, SplitWindow
from cdk.state.position import Checkpoint, Start
from cdk.state.slice import Slice
from cdk.state.window import Window
from cdk.streams.cursor import Side
from cdk.streams.page import Item, Page

_REMAINING = "windows"
"""The key in a position for the rest of a slice: the window that is being read, and the windows after it."""

_READ = "read"
"""The key in a position for what was read since the first page: the number of `records`, and the `greatest` value."""


class Reset(Struct, frozen=True):
    """When pagination starts again. action: from where. limit: after how many records, unless the API asks earlier."""

    action: Literal["RESET", "SPLIT_USING_CURSOR"]
    limit: int | None = None


class Split(Struct, frozen=True):
    """How a window is split. halves: returns its two halves; None if too small. advice: for the error's reader."""

    halves: Callable[[Window], tuple[Window, Window] | None]
    advice: str = ""


class RecoveringReader:
    """Reads slices with `inner`, and once more or in smaller windows if the API refuses their pages."""

    def __init__(
        self, inner: SliceReader, incremental: Incremental | None, *, reset: Reset, split: Split | None
    ) -> None:
        self.router: Router | None = inner.router
        self.token_key = inner.token_key
        self.inner, self._reset, self._split = inner, reset, split
        # Reading the cursor value of each record costs as much as keeping records as text saves.
        self._incremental = incremental if reset.action == "SPLIT_USING_CURSOR" else None

    def read(self, slice: Slice) -> Iterator[Item]:
        """Read a slice, and again from its first page or in smaller windows if the API refuses its pages.

        Raises FatalError: when starting again would change nothing. Raises TransientError: when a window cannot be
        split further. Raises StaleToken: when the slice must start again, since the API refuses a saved token's page.
        """
        remaining, restarted = _remaining(slice), False
        while remaining:
            attempt = _Attempt(slice, remaining, self._incremental, self._reset.limit)
            try:
                yield from attempt.read(self.inner)
            except SplitWindow as refused:
                remaining = self._split_window(refused, attempt)
            except ResetPagination as refused:
                if self._incremental is not None:
                    remaining = _from_greatest(refused, attempt)
                elif attempt.token and attempt.token is attempt.slice.start.cursor:
                    # On StaleToken the caller reads the slice to its end in one go:
                    # if resumed once more, it might start again forever.
                    raise stale_page_token(f"cannot be resumed: {refused.message}") from refused
                elif restarted:
                    text = f"{refused.message}; the pages were already read again from the start, with the same result"
                    raise FatalError(text) from refused
                else:
                    restarted = True
                    logger.info("%s; reading again from the first page", refused.message)
                    _warn_of_duplicates(attempt)
            else:
                remaining = remaining[1:]
            if remaining:
                slice = replace(slice, start=Start())
                if remaining != [slice.window]:
                    yield Checkpoint({_REMAINING: _as_json(remaining)})

    def _split_window(self, refused: SplitWindow, attempt: "_Attempt") -> list[Window | None]:
        window = attempt.slice.window
        if self._split is None or window is None:
            raise refused
        halves = self._split.halves(window)
        if halves is None:
            advice = f" {self._split.advice}" if self._split.advice else ""
            why = f"the API refuses {_shown(window)}, which cannot be split further: {refused.message}.{advice}"
            raise TransientError(why) from refused
        logger.info("%s; reading %s and %s instead", refused.message, *map(_shown, halves))
        _warn_of_duplicates(attempt)
        return [*halves, *attempt.remaining[1:]]


def _from_greatest(refused: ResetPagination, attempt: "_Attempt") -> list[Window | None]:
    """Return the remaining windows, the first of them from the greatest value that was read.

    Raises FatalError: when the window already starts there.
    """
    window, reached = attempt.slice.window, attempt.greatest
    if window is None or reached is None or reached == window.start:
        if not attempt.is_count_known:
            logger.info("%s; reading again from the first page", refused.message)
            _warn_of_duplicates(attempt)
            return attempt.remaining
        raise FatalError(
            f"{refused.message}; no record is newer than the start of {_shown(window)}, so it cannot be read "
            "from further on: choose a smaller `step`, or a higher limit"
        ) from refused
    logger.info("%s; continuing from %s", refused.message, reached)
    _warn_of_duplicates(attempt)
    return [replace(window, start=reached), *attempt.remaining[1:]]


class _Attempt:
    """One attempt to read a window, from its first page or from the page of a saved token.

    remaining: that window and those after it. incremental: None if the greatest value is not needed. limit: the maximum
    number of records.
    """

    token: Mapping[str, JsonValue] = MappingProxyType({})
    """The token of the next page; empty for the first."""
    is_count_known = True
    """Whether the number of records since the first page is known. Not in tokens of reads that did not count."""
    records_read = 0
    """The number of records that were read."""
    greatest: FieldValue = None
    """The greatest cursor value of these records."""

    def __init__(
        self, slice: Slice, remaining: list[Window | None], incremental: Incremental | None, limit: int | None
    ) -> None:
        self.remaining, self._is_whole_window = remaining, remaining == [slice.window]
        self._incremental, self._limit = incremental, limit
        self.slice = slice
        # Most slices are read as they were planned.
        if slice.start.cursor:
            self._resume(slice.start.cursor)
        elif not self._is_whole_window:
            self.slice = replace(slice, window=remaining[0], start=Start())

    def _resume(self, saved: Mapping[str, JsonValue]) -> None:
        own = saved.keys() & {_REMAINING, _READ}
        self.token = {name: value for name, value in saved.items() if name not in own} if own else saved
        start = self.slice.start
        if own or not self._is_whole_window:
            start = replace(start, cursor=self.token) if isinstance(start, Checkpoint) and self.token else Start()
            self.slice = replace(self.slice, window=self.remaining[0], start=start)
        read = as_object(saved.get(_READ))
        count = read.get("records")
        self.is_count_known = type(count) is int or not self.token
        self.records_read = count if type(count) is int else 0
        self.greatest = read.get("greatest")

    def read(self, inner: SliceReader) -> Iterator[Item]:
        """Yield the items of the window. Raises ResetPagination: when the number of records reaches the limit."""
        self._check_limit()
        for item in inner.read(self.slice):
            match item:
                case Page(records=records, next=following):
                    self._count(records)
                    if following is None:
                        yield item
                    else:
                        self.token = following
                        yield replace(item, next=self._position())
                    self._check_limit()
                case Checkpoint():
                    yield item
                case _:
                    self._count([item])
                    yield item

    def _position(self) -> Mapping[str, JsonValue]:
        position = dict(self.token)
        if not self._is_whole_window:
            position[_REMAINING] = _as_json(self.remaining)
        if self.is_count_known and (self._incremental is not None or self._limit is not None):
            position[_READ] = {"records": self.records_read, "greatest": self.greatest}
        return position

    def _check_limit(self) -> None:
        if self._limit is None:
            return
        if not self.is_count_known:
            why = "the page token saved by an earlier read does not contain the number of records before it"
            raise ResetPagination(why)
        if self.records_read >= self._limit:
            raise ResetPagination(f"{self.records_read} records were read, the limit is {self._limit}")

    def _count(self, records: Sequence[Record]) -> None:
        self.records_read += len(records)
        window = self.slice.window
        if self._incremental is None or window is None:
            return
        cursor = self._incremental.cursor
        values = [value for record in records if (value := record.get(cursor.field)) is not None]
        sides = cursor.sides(window, values)
        if values := [value for value, side in zip(values, sides, strict=True) if side is not Side.AFTER]:
            self.greatest = cursor.greatest([self.greatest, cursor.greatest_of_records(values)])


def _remaining(slice: Slice) -> list[Window | None]:
    """Return the windows of a slice that are still to be read; the slice's position lies in the first of them."""
    saved = (slice.start.cursor or {}).get(_REMAINING)
    if not saved or slice.window is None:
        return [slice.window]
    windows = [Window(start, end, until, last=False) for start, end, until in saved]
    return [*windows[:-1], replace(windows[-1], last=slice.window.last)]


def _as_json(windows: Sequence[Window | None]) -> JsonValue:
    return [None if window is None else [window.start, window.end, window.until] for window in windows]


def _shown(window: Window | None) -> str:
    return "the slice" if window is None else f"the window from {window.start} to {window.end}"


def _warn_of_duplicates(attempt: _Attempt) -> None:
    if attempt.records_read or attempt.token:
        shown = _shown(attempt.slice.window)
        logger.warning("%s: some of the records already read from %s will be emitted twice", attempt.slice, shown)
