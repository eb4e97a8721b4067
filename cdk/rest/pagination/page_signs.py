"""Finds what a response says about its pages: links, fields for a next page, and totals of records or pages."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from urllib.parse import unquote_plus

from msgspec import Struct

from cdk.base.errors import DecodeError
from cdk.base.first_use import lazy_pattern
from cdk.base.values import JsonValue, Stored, from_json
from cdk.rest.http.messages import Response

# The parameters of a target: up to the next comma or target outside of quotes. Possessive, so it does not backtrack.
_PARAMETERS = lazy_pattern(r'(?:[^",<]++|"(?:[^"\\]|\\.)*+")*+', re.DOTALL)
_PARAMETER = lazy_pattern(r';\s*+([^\s=;"]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s;,"]++))')


_SIGNS = lazy_pattern(rb'"next|"has_?(?:more"|next)|nextlink|total|pages|count|num', re.IGNORECASE)
_NEXT = {"next", "nextpage", "nextcursor", "nextpagetoken", "nextpagecursor", "nexttoken", "nexturl", "nextlink"}
_NEXT |= {"nextpageurl", "nextpagelink", "odatanextlink", "hasmore", "hasnext", "hasnextpage"}
_NEXT |= {"nextbatch", "nextmarker", "nextoffset", "nextpageoffset"}
_HEADERS = {f"{prefix}{name}" for prefix in ("", "x", "xpagination") for name in _NEXT}
_AROUND = (
    *("meta", "metadata", "pagination", "paging", "page", "page_info", "pageInfo", "links", "_links", "cursors"),
    *("response_metadata", "responseMetadata"),
)
"""Objects of a body, besides the body itself, in which APIs return the next page."""
_TOTALS = {"total", "totalcount", "totalrecords", "totalresults", "totalitems", "totalelements", "totalentries"}
_TOTALS |= {"totalhits", "totalrows", "totalpages", "pagecount", "pages", "numpages", "filtercount"}
_COUNT = "count"
"""The name by which some APIs count all records, and others those of the page."""
# fmt: off
SIZES = (
    "perpage", "pagesize", "limit", "pagelimit", "size", "maxresults", "resultsperpage", "itemsperpage", "count",
    "take", "num", "rows", "max", "top", "maxitems", "first",
)
# fmt: on
"""Parameters for the page size, lower case and without separators; the least ambiguous ones first."""
_SHORT = 1024
"""Maximum bytes of a body, without records, whose findings are cached."""
_DIGITS = 18
"""Maximum digits of a count that is a string."""
_POSITION = lazy_pattern(
    r"[?&](?:_?page|offset|_?start|skip|startAt|startIndex|from|page(?:\[|%5B)\w+(?:\]|%5D))=\d+(?:&|$)"
)
"""A parameter of a URL that counts pages or records."""
_NO_LETTER = lazy_pattern(r"[^a-z]")


def unused_next_page(response: Response) -> str:
    """Return, as a doubt, where a response names a next page that its paginator does not use; else empty."""
    return _next_in_headers(response) or _of_body(response).next


def unread_total(response: Response, count: int, pages: int = 1) -> str:
    """Return, as a doubt, a total of the response above the `count` of records read, or above `pages`; else empty."""
    for total in _totals_of(response, _of_body(response)):
        if total.certain and total.number > total.expected(count, pages):
            had = f"the page has {count:,} records" if pages == 1 else f"the {pages} pages have {count:,} records"
            return f"{total.number} in {total.where}, and {had}"
    return ""


def says_end(response: Response, count: int, pages: int) -> bool:
    """Whether a response says that there is nothing after `count` records in `pages` pages (0: unknown).

    It does if its field for the next page exists but is empty, or if its totals have been reached.
    """
    paging = _of_body(response)
    if paging.next or _next_in_headers(response):
        return False
    totals = [total for total in _totals_of(response, paging) if total.certain] if pages else []
    if any(total.number > total.expected(count, pages) for total in totals):
        return False
    if paging.ends or _next_headers(tuple(response.headers)):
        return True
    return any(total.number == total.expected(count, pages) for total in totals)


def total_records(response: Response) -> int:
    """Return the number of records in total, or of the page, that a header or the body reports; 0 if none does."""
    totals = _totals_of(response, _of_body(response))
    return next((total.number for total in totals if not total.counts_pages), 0)


def has_position(token: Stored) -> bool:
    """Whether a page token is a URL with a position in a list, so that new and deleted records shift its page."""
    if isinstance(token, Mapping):
        return any(map(has_position, token.values()))
    return isinstance(token, str) and _POSITION.search(token) is not None


def full_page_doubt(response: Response, count: int) -> str:
    """Return, as a doubt, that the page has as many records as its request allowed; else empty.

    Empty if the response reports a total, as `unread_total` is more reliable, and for one record, which may be all that
    was requested.
    """
    if count < 2:  # noqa: PLR2004 - one is no list
        return ""
    query, names = response.url.partition("?")[2], list[str]()
    # A cheap test first, as this runs for each slice with a single page: most queries do not contain the number.
    if f"={count}" in query:
        names = [unquote_plus(name) for name in re.findall(rf"(?:^|&)([^=&]+)={count}(?=&|$)", query)]
    if response.request.body:
        names += [name for name, value in response.request.body_fields[1].items() if _whole_number(value) == count]
    name = next((name for name in names if _letters(name) in SIZES), None)
    if name is None or any(total.certain for total in _totals_of(response, _of_body(response))):
        return ""
    return f"a full page: `{name}` requests {count:,} records, and as many were returned, so there are probably more"


def _next_in_headers(response: Response) -> str:
    """Return where the headers of a response name a next page; empty if they do not."""
    if (link := response.headers.get("link")) and "next" in links(link):
        return 'a rel="next" in the header Link (is it `LinkHeader()`?)'
    for name in _next_headers(tuple(response.headers)):
        if _is_next(value := response.headers[name]):
            return f"{value[:_SHOWN]!r} in the header {name}"
    return ""


class _Total(Struct, frozen=True):
    """A total of all records, or pages. where: its place in the response, as text."""

    where: str
    number: int
    counts_pages: bool
    certain: bool
    """Whether it is certainly a total, and not possibly the number of records of the page."""

    def expected(self, count: int, pages: int) -> int:
        """Return how many of what it counts were read."""
        return pages if self.counts_pages else count


def _totals_of(response: Response, paging: "_Paging") -> Iterator[_Total]:
    """Yield the totals of records or pages in the headers of a response, then in its body."""
    for name in _total_headers(tuple(response.headers)):
        yield _Total(f"the header {name}", _whole_number(response.headers[name]), _counts_pages(name), certain=True)
    for where, number in paging.totals:
        name = where[-1]
        yield _Total(f"{' > '.join(where)} of the body", number, _counts_pages(name), certain=name != _COUNT)


class _Paging(Struct, frozen=True):
    """What a body says about its pages."""

    next: str = ""
    """The value that names a next page, and its place, as text; empty if there is none."""

    ends: bool = False
    """Whether a field for the next page exists and is empty."""

    totals: Sequence[tuple[tuple[str, ...], int]] = ()
    """The paths and values of totals of records or pages."""


_NOTHING = _Paging()
"""The result for most bodies."""


def _of_body(response: Response) -> _Paging:
    if response.is_stream:
        return _NOTHING
    text = response.bytes_without_records
    if len(text) < _SHORT:
        return _of_text(text)
    # Most bodies have no sign of further pages; these need not be decoded.
    if not text[:_SHORT].lstrip().startswith(b"{") or not (response.is_decoded or _SIGNS.search(text)):
        return _NOTHING
    try:
        return _of_value(response.body_without_records())
    except (DecodeError, ValueError):
        return _NOTHING


@lru_cache(maxsize=64)
def _of_text(body: bytes) -> _Paging:
    """Return what a short body says. Cached, because bodies of a source are mostly equal except for their records."""
    if not body.lstrip().startswith(b"{") or _SIGNS.search(body) is None:
        return _NOTHING
    try:
        return _of_value(from_json(body))
    except ValueError:
        return _NOTHING


def _of_value(body: JsonValue) -> _Paging:
    parts: list[tuple[tuple[str, ...], JsonValue]] = [((), body)]
    if type(body) is dict:
        parts += [((name,), body[name]) for name in _AROUND if name in body]
    fields = [field for part in parts for field in _named_next(*part)]
    named = (f"{repr(value)[:_SHOWN]} in {' > '.join(path)} of the body" for path, value in fields if _is_next(value))
    ends = any(not _is_next(value) for _, value in fields)
    return _Paging(next(named, ""), ends, [total for part in parts for total in _totals(*part)])


def _totals(where: tuple[str, ...], value: JsonValue) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the fields of an object that are totals of records or pages."""
    if type(value) is dict:
        lists = [name for name, field in value.items() if type(field) is list]
        totals = _TOTALS | {_COUNT} | {each for name in lists for each in _counts_of(name)}
        for name, field in value.items():
            if _letters(name) in totals and (number := _whole_number(field)):
                yield (*where, name), number


def _counts_of(name: str) -> Iterator[str]:
    """Yield possible names of the total for a list of this name: `total_rooms` for `rooms`."""
    if letters := _letters(name):
        yield from (f"total{letters}", f"{letters}total", f"{letters}count", f"num{letters}")


def _whole_number(value: JsonValue) -> int:
    """Return the integer in a field, which may be a string; 0 if there is none, or if it has too many digits."""
    if type(value) is int:
        return value
    return int(value) if type(value) is str and len(value) <= _DIGITS and value.isdecimal() else 0


def _counts_pages(name: str) -> bool:
    return _letters(name).endswith(("pages", "pagecount"))


_SHOWN = 80


def _letters(name: str) -> str:
    return _NO_LETTER.sub("", name.lower())


@lru_cache(maxsize=64)
def _next_headers(names: tuple[str, ...]) -> Sequence[str]:
    """Return the headers named like a next page. Cached: the responses of a source have the same headers."""
    return [name for name in names if _letters(name) in _HEADERS]


@lru_cache(maxsize=64)
def _total_headers(names: tuple[str, ...]) -> Sequence[str]:
    """Return the headers named like a total of records or pages."""
    return [name for name in names if _letters(name).removeprefix("x") in _TOTALS]


def _named_next(where: tuple[str, ...], value: JsonValue) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    """Yield the fields of an object that name a next page, or say whether there is one."""
    if type(value) is dict:
        for name, field in value.items():
            if _letters(name) in _NEXT:
                yield (*where, name), field
    elif type(value) is list and where:
        yield from (((*where, "next"), link) for link in value if type(link) is dict and link.get("rel") == "next")


def _is_next(value: JsonValue) -> bool:
    """Whether a field that is named like a next page has one."""
    return bool(value) and value != "0"


def links(header: str) -> dict[str, dict[str, str]]:
    """Parse a Link header: for each lower-case relation, its parameters and its target as `url`. The first one wins."""
    targets: dict[str, dict[str, str]] = {}
    for target, parameters in _targets(header):
        fields = {"url": target}
        for name, quoted, plain in _PARAMETER.findall(parameters):
            fields[name.lower()] = quoted or plain
        for relation in fields.get("rel", "").lower().split():
            targets.setdefault(relation, fields)
    return targets


def _targets(header: str) -> Iterator[tuple[str, str]]:
    """Yield the targets of a header, each with its parameters."""
    at = 0
    while (begin := header.find("<", at)) >= 0 and (end := header.find(">", begin)) >= 0:
        parameters = _PARAMETERS.match(header, end + 1)
        assert parameters is not None
        yield header[begin + 1 : end], parameters.group()
        at = parameters.end()
        if header.startswith('"', at):
            # A quote that is never closed. Searching for its end again after each target would take quadratic time.
            return
