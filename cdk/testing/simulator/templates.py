"""RequestTemplate: what a stream's requests look like, learned from examples, and what a given request asks for.

Nothing is known about how a stream builds its requests. The simulator has it send requests that differ in one thing,
such as the window, and the places where they differ hold that thing.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import TypeAlias
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

from msgspec import Struct

from cdk.base.times.clock import parse_timestamp, write_timestamp
from cdk.base.values import JsonValue, canonical, from_json, walk
from cdk.rest import Request
from cdk.state.window import Window
from cdk.streams.count_cursor import CountCursor
from cdk.streams.cursor import Cursor
from cdk.streams.datetime_cursor import DatetimeCursor

Leaf: TypeAlias = tuple[str, ...]
"""A place in a request: `("query", "page", "0")`, `("path", "2")`, `("body", "filter", "since")`."""

_TIMESTAMPS = (
    (datetime(2021, 2, 13, 5, 6, 7, tzinfo=UTC), datetime(2022, 3, 24, 8, 9, 10, tzinfo=UTC)),
    (datetime(2023, 4, 15, 11, 12, 13, tzinfo=UTC), datetime(2024, 5, 26, 14, 15, 16, tzinfo=UTC)),
)
_NUMBERS = ((1234567, 7654321), (2345678, 8765432))
# fmt: off
_FORMATS = (
    "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S%z",
    "%Y-%m-%dT%H:%M:%S.%_msZ", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d", "%Y%m%d", "%Y/%m/%d",
    "%m/%d/%Y", "%d-%m-%Y", "%d.%m.%Y", "%s", "%ms", "%Y-%m", "%Y",
)
# fmt: on
"""How requests may write a timestamp, besides the formats of the cursor."""
_PRECISIONS = [timedelta(days=1), timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)]
_MICROSECOND = timedelta(microseconds=1)


def leaves(request: Request) -> dict[Leaf, str]:
    """Return the values at all places of a request, except credentials."""
    url = urlsplit(request.full_url)
    located: dict[Leaf, str] = {("path", str(at)): unquote(part) for at, part in enumerate(url.path.split("/"))}
    for name, values in parse_qs(url.query, keep_blank_values=True).items():
        if not request.is_secret(name):
            located |= {("query", name, str(at)): value for at, value in enumerate(values)}
    return located | dict(_body_leaves(request.body or b""))


def _body_leaves(body: bytes) -> Iterator[tuple[Leaf, str]]:
    try:
        for keys, value in walk(from_json(body), ("body",)):
            yield tuple(map(str, keys)), value if isinstance(value, str) else canonical(value)
    except ValueError:
        text = body.decode(errors="replace")
        fields = parse_qsl(text, keep_blank_values=True)
        yield from ((("body", name), value) for name, value in fields or [("", text)] if text)


def differing(first: Mapping[Leaf, str], second: Mapping[Leaf, str]) -> set[Leaf]:
    """Return the places at which two requests differ."""
    return {leaf for leaf in {*first, *second} if first.get(leaf) != second.get(leaf)}


class Query(Struct, frozen=True):
    """What a request asks for. part: of a collection. lower, upper: ranks of the cursor, inclusive.

    position: the index of the page's first record; None: another place in the request says. fit: how well the request
    matches the template.
    """

    part: str = ""
    lower: int | None = None
    upper: int | None = None
    position: int | None = None
    fit: int = 0

    @classmethod
    def brought_back(cls, token: Sequence[JsonValue]) -> "Query":
        """Return the query that a page token holds: its first four fields."""
        part, *numbers = token
        lower, upper, position = (each if isinstance(each, int) else None for each in numbers)
        return cls(str(part), lower, upper, position)


class Bounds(Struct, frozen=True):
    """How a leaf holds the ends of a window: a pattern with the groups `lower` and `upper`, and how to parse them."""

    pattern: re.Pattern[str]
    ranks: Mapping[str, Callable[[str], int | None]]


class RequestTemplate(Struct, frozen=True):
    """The form of a stream's requests. base: a request for a first page. keyed: the places that differ by partition.

    windowed: the places that differ by window. paged: the places that later pages add or change.
    """

    base: Mapping[Leaf, str]
    keyed: frozenset[Leaf] = frozenset()
    windowed: Mapping[Leaf, Bounds | None] | None = None
    paged: frozenset[Leaf] = frozenset()

    def match(self, sent: Mapping[Leaf, str]) -> Query | None:
        """Return what a request asks for; None if it is not a request of this stream."""
        windowed, part, ranks, fit = self.windowed or {}, [], dict[str, int | None](), 0
        for leaf in sorted({*self.base, *sent}):
            text = sent.get(leaf)
            if leaf in self.paged:
                continue
            if text is None or leaf not in self.base:
                if leaf[0] == "path":
                    return None
                fit -= 1
            elif leaf in windowed:
                bounds = windowed[leaf]
                located = None if bounds is None else bounds.pattern.fullmatch(text)
                if bounds is not None and located is not None:
                    ranks |= {name: bounds.ranks[name](value) for name, value in located.groupdict().items()}
                    text = _without_groups(located)
                part += [text] if leaf in self.keyed else []
            elif leaf in self.keyed:
                part.append(text)
            elif text != self.base[leaf]:
                if leaf[0] == "path":
                    return None
                fit -= 3
            else:
                fit += 1
        return Query("/".join(part), ranks.get("lower"), ranks.get("upper"), None, fit)


def _without_groups(located: re.Match[str]) -> str:
    parts = [(0, 0), *(located.span(at) for at in range(1, located.re.groups + 1)), (len(located.string), 0)]
    return "".join(located.string[end:begin] for (_, end), (begin, _) in pairwise(parts))


def probe_windows(cursor: Cursor | None) -> Sequence[Window | None]:
    """Return two windows that differ in both ends, in every unit they may be written in; `[None]` without a cursor.

    Raises TypeError: when it is unknown how the cursor writes its values.
    """
    match cursor:
        case None:
            return [None]
        case DatetimeCursor():
            written = [tuple(map(cursor.write, pair)) for pair in _TIMESTAMPS]
        case CountCursor():
            written = [*_NUMBERS]
        case _:
            raise TypeError(type(cursor).__name__)
    return [Window(start, end, end, last=False) for start, end in written]


def bounds_of(cursor: Cursor, texts: Sequence[str], *, keyed: bool) -> Bounds | None:
    """Return how a leaf holds the ends of a window, from its texts for the windows of `probe_windows`; None if unclear.

    keyed: whether something else in the text may differ, too.
    """
    first, second = texts
    readings = {name: [*_readings(cursor, at)] for at, name in enumerate(("lower", "upper"))}
    located: list[tuple[int, int, str, Callable[[str], int | None]]] = []
    for name, options in readings.items():
        placed = [
            (first.find(first_text), len(first_text), name, read)
            for first_text, second_text, read in options
            if first_text in first and second_text in second
        ]
        located += [max(placed, key=lambda each: each[1])] if placed else []
    located.sort(key=lambda each: each[0])
    pattern, at = "", 0
    for begin, length, name, _ in located:
        if begin < at:
            continue
        pattern += f"{'.*?' if keyed else re.escape(first[at:begin])}(?P<{name}>.+?)"
        at = begin + length
    if not located:
        return None
    regex = re.compile(f"{pattern}{'.*?' if keyed else re.escape(first[at:])}", re.DOTALL)
    return Bounds(regex, {name: read for _, _, name, read in located}) if regex.fullmatch(second) else None


def _readings(cursor: Cursor, end: int) -> Iterator[tuple[str, str, Callable[[str], int | None]]]:
    """Yield ways to write one end of the two windows, with its parser. end: 0 for the start, 1 for the end."""
    if isinstance(cursor, CountCursor):
        yield str(_NUMBERS[0][end]), str(_NUMBERS[1][end]), partial(_rank, cursor)
        return
    for pattern in (*cursor.order.formats, *_FORMATS):
        first_text, second_text = (str(write_timestamp(pair[end], pattern)) for pair in _TIMESTAMPS)
        yield first_text, second_text, partial(_timestamp_rank, cursor, pattern, last=end == 1)


def _timestamp_rank(cursor: Cursor, pattern: str, text: str, *, last: bool) -> int | None:
    """Return the rank of a timestamp in a request.

    last: use the last instant with the same text, such as a day's end.
    """
    timestamp = parse_timestamp(text, [pattern])
    if timestamp is None:
        return None
    if last:
        ends = (timestamp + unit - _MICROSECOND for unit in _PRECISIONS)
        written = write_timestamp(timestamp, pattern)
        timestamp = next((end for end in ends if write_timestamp(end, pattern) == written), timestamp)
    return _rank(cursor, timestamp.isoformat())


def _rank(cursor: Cursor, value: object) -> int | None:
    rank = cursor.order.rank(value)
    return rank if isinstance(rank, int) else None
