"""Recoveries: a slice whose pages an API refuses is read again from its first page, or in smaller windows.

What a window is cut into, and what the pages before have brought, becomes part of the positions in it: a read that is
interrupted resumes as if it had not been.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from cdk.base.errors import FatalError, StaleToken, TransientError
from cdk.base.logs import logger
from cdk.base.values import FieldValue, JsonValue, Record, as_object
from cdk.declarative.model.plug_points import Incremental, Router, SliceReader
from cdk.rest.errors.outcome import ResetPagination, SplitWindow
from cdk.state.position import Checkpoint, Start
from cdk.state.slice import Slice
from cdk.state.window import Window
from cdk.streams.cursor import Side
from cdk.streams.page import Item, Page

_REMAINING = "windows"
"""The key of a position that says what is left of a slice: the window that is read now, and those behind it."""

_READ = "read"
"""The key of a position that says what came since the first page: the number of `records`, and the `greatest` value."""


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
        Raises StaleToken: the slice is to begin anew, for the API refuses the page of a saved token.
        """
        remaining, anew = _remaining(slice), False
        while remaining:
            attempt = _Attempt(slice, remaining, self._incremental, self._reset.limit)
            try:
                yield from attempt.read(self.inner)
            except SplitWindow as refused:
                remaining = self._cut(refused, attempt)
            except ResetPagination as refused:
                if self._incremental is not None:
                    remaining = _further(refused, attempt)
                elif attempt.token and attempt.token is attempt.slice.start.cursor:
                    # Who is told so reads the slice to its end in one go: resumed again, it might begin anew for ever.
                    text = f"the page token saved by an earlier read cannot be resumed: {refused.message}"
                    raise StaleToken(text) from refused
                elif anew:
                    text = f"{refused.message}; the pages began anew once, and it came to the same"
                    raise FatalError(text) from refused
                else:
                    anew = True
                    logger.info("%s; reading again from the first page", refused.message)
                    _warn(attempt)
            else:
                remaining = remaining[1:]
            if remaining:
                slice = replace(slice, start=Start())
                if remaining != [slice.window]:
                    yield Checkpoint({_REMAINING: _written(remaining)})

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


def _further(refused: ResetPagination, attempt: "_Attempt") -> list[Window | None]:
    """The windows that remain, the first of them from the greatest value on that was read.

    Raises FatalError: that is where it begins already.
    """
    window, reached = attempt.slice.window, attempt.greatest
    if window is None or reached is None or reached == window.start:
        if not attempt.known:
            logger.info("%s; reading again from the first page", refused.message)
            _warn(attempt)
            return attempt.remaining
        raise FatalError(
            f"{refused.message}; no record is newer than the start of {_shown(window)}, so it cannot be read "
            "from further on: choose a smaller `step`, or a higher limit"
        ) from refused
    logger.info("%s; reading on from %s", refused.message, reached)
    _warn(attempt)
    return [replace(window, start=reached), *attempt.remaining[1:]]


class _Attempt:
    """One try at a window, from its first page or the one that a saved token asks for.

    remaining: that window and those behind it. incremental: None where nobody needs to know the greatest value.
    limit: of records.
    """

    token: Mapping[str, JsonValue] = MappingProxyType({})
    """Of the next page; empty for the first."""
    known = True
    """Whether it is known what came since the first page. Tokens of earlier versions do not say it."""
    handed = 0
    """Records that were handed on."""
    greatest: FieldValue = None
    """Their greatest cursor value."""

    def __init__(
        self, slice: Slice, remaining: list[Window | None], incremental: Incremental | None, limit: int | None
    ) -> None:
        self.remaining, self._uncut = remaining, remaining == [slice.window]
        self._incremental, self._limit = incremental, limit
        self.slice = slice
        # Most slices are as they were planned.
        if slice.start.cursor:
            self._resume(slice.start.cursor)
        elif not self._uncut:
            self.slice = replace(slice, window=remaining[0], start=Start())

    def _resume(self, saved: Mapping[str, JsonValue]) -> None:
        own = saved.keys() & {_REMAINING, _READ}
        self.token = {name: value for name, value in saved.items() if name not in own} if own else saved
        start = self.slice.start
        if own or not self._uncut:
            start = replace(start, cursor=self.token) if isinstance(start, Checkpoint) and self.token else Start()
            self.slice = replace(self.slice, window=self.remaining[0], start=start)
        read = as_object(saved.get(_READ))
        count = read.get("records")
        self.known = type(count) is int or not self.token
        self.handed = count if type(count) is int else 0
        self.greatest = read.get("greatest")

    def read(self, inner: SliceReader) -> Iterator[Item]:
        """The items of the window. Raises ResetPagination: there are as many records as the limit says."""
        self._check_limit()
        for item in inner.read(self.slice):
            match item:
                case Page(records=records, next=following):
                    self._see(records)
                    if following is None:
                        yield item
                    else:
                        self.token = following
                        yield item._replace(next=self._position())
                    self._check_limit()
                case Checkpoint():
                    yield item
                case _:
                    self._see([item])
                    yield item

    def _position(self) -> Mapping[str, JsonValue]:
        position = dict(self.token)
        if not self._uncut:
            position[_REMAINING] = _written(self.remaining)
        if self.known and (self._incremental is not None or self._limit is not None):
            position[_READ] = {"records": self.handed, "greatest": self.greatest}
        return position

    def _check_limit(self) -> None:
        if self._limit is None:
            return
        if not self.known:
            raise ResetPagination(
                "the page token saved by an earlier read does not say how many records came before it"
            )
        if self.handed >= self._limit:
            raise ResetPagination(f"{self.handed} records were read, and the limit is {self._limit}")

    def _see(self, records: Sequence[Record]) -> None:
        self.handed += len(records)
        window = self.slice.window
        if self._incremental is None or window is None:
            return
        cursor = self._incremental.cursor
        values = [value for record in records if (value := record.get(cursor.field)) is not None]
        sides = cursor.sides(window, values)
        if values := [value for value, side in zip(values, sides, strict=True) if side is not Side.AFTER]:
            self.greatest = cursor.greatest([self.greatest, cursor.greatest_of_records(values)])


def _remaining(slice: Slice) -> list[Window | None]:
    """The windows of a slice that are not read yet, the first of them from the slice's position on."""
    saved = (slice.start.cursor or {}).get(_REMAINING)
    if not saved or slice.window is None:
        return [slice.window]
    windows = [Window(start, end, until, last=False) for start, end, until in saved]
    return [*windows[:-1], replace(windows[-1], last=slice.window.last)]


def _written(windows: Sequence[Window | None]) -> JsonValue:
    return [None if window is None else [window.start, window.end, window.until] for window in windows]


def _shown(window: Window | None) -> str:
    return "the slice" if window is None else f"the window from {window.start} to {window.end}"


def _warn(attempt: _Attempt) -> None:
    if attempt.handed or attempt.token:
        shown = _shown(attempt.slice.window)
        logger.warning("%s: of the records that were read of %s some come again", attempt.slice, shown)
