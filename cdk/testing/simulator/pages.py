"""Pages: bodies and headers that make a stream request the next page or stop, found by trial of what it looks at."""

import re
from base64 import b32decode, b32encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import TypeAlias
from urllib.parse import urlencode, urlsplit, urlunsplit

from msgspec import Struct

from cdk.base.values import JsonObject, JsonValue, from_json, to_json
from cdk.declarative.syntax.json_edit import set_at
from cdk.rest import Headers, Request, Response
from cdk.rest.http.messages import query_of
from cdk.testing.simulator.examples import inside

TOKEN, URL, NUMBER = "<token>", "<url>", "<number>"
"""Placeholders for what names the next page: an opaque token, a URL that contains the token, and a page number."""

Extras: TypeAlias = Sequence[tuple[tuple[str, ...], JsonValue]]
"""What a page has besides its records: paths below `response`, `headers` or `last_record`, with values."""

_MARK = re.compile(r"cdkpage-([a-z2-7]+)")
_PARAMETER = "next_page"
_MOST_TRIED = 150


def page_token(what: Sequence[JsonValue]) -> str:
    """Return a token that encodes which page is next."""
    return f"cdkpage-{b32encode(to_json(list(what))).decode().rstrip('=').lower()}"


def token_in(request: Request) -> list[JsonValue] | None:
    """Return the content of the token that a request sends back; None if it has none."""
    mark = _MARK.search(f"{request.full_url} {(request.body or b'').decode(errors='replace')}")
    if mark is None:
        return None
    value = from_json(b32decode(mark[1].upper() + "=" * (-len(mark[1]) % 8)))
    assert isinstance(value, list)
    return value


class PageShape(Struct, frozen=True):
    """The shape of pages. path: of the records. single: the body is one record. size: records of a page; None: all.

    more, last: what a page with a next one, and the last page, have besides the records. first, step: for numbered
    pages, the number of the first page and the difference to the next one. after: the field of a record whose value
    requests the records after it.
    """

    path: tuple[str, ...]
    size: int | None = None
    single: bool = False
    more: Extras = ()
    last: Extras = ()
    first: int = 0
    step: int = 0
    after: str | None = None

    def response(self, request: Request, records: Sequence[JsonObject], number: int, token: str | None) -> Response:
        """Return a page with some records.

        number: of the page, from 0. token: of the next page; None if there is none.
        """
        extras = [
            (path, _filled(value, request, number, token or ""))
            for path, value in (self.last if token is None else self.more)
        ]
        rows = [dict(record) for record in records]
        below: dict[str, list[tuple[tuple[str, ...], JsonValue]]] = {"response": [], "headers": [], "last_record": []}
        for (scope, *names), value in extras:
            below[scope].append((tuple(names), value))
        for path, value in below["last_record"] if rows else ():
            set_at(rows[-1], path, value)
        body: JsonValue = (rows or [{}])[0] if self.single else inside(self.path, rows)
        if isinstance(body, dict) and (rows or not self.single):
            for path, value in below["response"]:
                set_at(body, path, value)
        headers = {"Content-Type": "application/json", **_headers(below["headers"])}
        return Response(200, Headers(headers), to_json(body, str), request.full_url, request)


def places(deciding_paths: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the paths a paginator looks at where a page can hold a value."""
    known = [tuple(each) for each in dict.fromkeys(deciding_paths) if len(each) > 1 and each[0] in _SCOPES]
    return [each for each in known if not any(other[: len(each)] == each and other != each for other in known)]


def shapes(
    path: tuple[str, ...], sizes: Sequence[int], deciding_paths: Sequence[tuple[str, ...]]
) -> Iterator[PageShape]:
    """Yield possible shapes of pages that have a next page, the likeliest first."""
    within = places(deciding_paths)
    in_list = not path and any(each[0] == "response" for each in within)
    for size, single in [(1, True)] if in_list else [(each, False) for each in sizes]:
        for values in _choices(within, path):
            yield PageShape(path, size, single, more=values)
    if in_list:
        yield from (PageShape(path, each) for each in sizes)


def last_pages(shape: PageShape) -> Iterator[Extras]:
    """Yield what a last page may have besides its records, the likeliest first."""
    options = [(False if value is True else None, *_ENDS) for _, value in shape.more]
    yield from _combined([path for path, _ in shape.more], options)


_ABSENT = "<absent>"
_ENDS = (None, False, "", "null", "false", _ABSENT, 0, True)
_NEXT = (TOKEN, URL, True, NUMBER, None, False, "true")
_FLAGS = (True, False, None, "true", TOKEN, URL, NUMBER)
"""Values to try: `_NEXT` at the first place, `_FLAGS` at the others.

The name of the next page is tried before values that only say that there is one.
"""
_SCOPES = ("response", "headers", "last_record")


def _choices(within: Sequence[tuple[str, ...]], path: tuple[str, ...]) -> Iterator[Extras]:
    """Yield combinations of values at the free places; the place of the records stays untouched."""
    free = [each for each in within if each[0] != "response" or each[1:] != path[: len(each) - 1]]
    # A field of the last record usually exists already, so leaving it unchanged is tried first.
    yield from _combined(
        free,
        [
            (_ABSENT, *_NEXT) if each[0] == "last_record" else _FLAGS if number else _NEXT
            for number, each in enumerate(free)
        ],
    )


def _combined(at: Sequence[tuple[str, ...]], options: Sequence[Sequence[JsonValue]]) -> Iterator[Extras]:
    for chosen in islice(product(*options), _MOST_TRIED):
        yield [(path, value) for path, value in zip(at, chosen, strict=True) if value != _ABSENT]


def _filled(value: JsonValue, request: Request, number: int, token: str) -> JsonValue:
    match value:
        case "<token>":
            return token
        case "<number>":
            return number + 1
        case "<url>":
            url = urlsplit(request.full_url)
            pairs = query_of(request.full_url)
            remaining = [(name, text) for name, text in pairs if name != _PARAMETER and not request.is_secret(name)]
            return urlunsplit(url._replace(query=urlencode([*remaining, (_PARAMETER, token)])))
        case _:
            return value


def _headers(extras: Sequence[tuple[tuple[str, ...], JsonValue]]) -> Mapping[str, str]:
    """Return the headers; values below `link` become parts of one Link header."""
    plain = {path[0]: str(value) for path, value in extras if len(path) == 1 and value is not None}
    links: dict[str, dict[str, JsonValue]] = {}
    for path, value in extras:
        if path[0] == "link" and len(path) == 3 and value is not None:  # noqa: PLR2004 - link, relation, parameter
            links.setdefault(path[1], {})[path[2]] = value
    texts = []
    for relation, parts in links.items():
        target = parts.pop("url", "https://api.example.com/")
        if target:
            texts.append("; ".join([f"<{target}>", f'rel="{relation}"', *(f'{n}="{v}"' for n, v in parts.items())]))
    return {**plain, **({"Link": ", ".join(texts)} if texts else {})}
