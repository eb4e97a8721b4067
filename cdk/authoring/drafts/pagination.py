"""Pagination: guesses how the next page is requested from the names of parameters, fields and headers."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from cdk.authoring.drafts.draft import Guess, Parameter, expression, known_parameter, parameter_option, quoted
from cdk.authoring.drafts.names import first_of, plain, words
from cdk.base.values import JsonObject, JsonValue, as_object, as_string, canonical
from cdk.rest.pagination.page_signs import SIZES

_NUMBERS = ("page", "pagenumber", "pageno", "pagenum", "pageindex", "currentpage", "p")
_OFFSETS = ("offset", "skip", "startindex", "startat", "pageoffset", "start", "from", "firstresult")
# fmt: off
_TOKENS = (
    "cursor", "pagetoken", "nexttoken", "nextpagetoken", "nextcursor", "continuationtoken", "continuation", "marker",
    "nextmarker", "pagecursor", "pageafter", "starttoken", "startcursor", "startkey", "scrollid", "startingafter",
    "after", "token", "nextkey", "offset",
)
# fmt: on
_NEXT_URLS = ("nexturl", "nexturi", "nextpageuri", "nextpageurl", "nextlink", "odatanextlink", "nexthref")
# fmt: off
_NEXT_TOKENS = (
    "nextcursor", "nextpagetoken", "nexttoken", "nextmarker", "nextpagecursor", "endcursor", "continuationtoken",
    "continuation", "cursorsafter", "cursorafter", "nextpageoffset", "nextoffset", "nextkey", "nextbatch", "scrollid",
)
# fmt: on
_USUAL_TOKEN_PARAMETERS = ("cursor", "page_token", "from", "after")
"""Parameters that in many APIs take the value by which a response names the next page."""
_MORE = ("hasmore", "hasnextpage", "hasnext", "more", "moreavailable", "ismore")
_LINK_HEADER = re.compile(r"\blink\W+(?:\w+\W+)?headers?\b", re.IGNORECASE)
_LOCATOR = re.compile(r"\b(?:ur[li]|path|link)\b", re.IGNORECASE)
_LARGEST, _USUAL = 1000, 100
_NAMES = "their names"
_ONE_PAGE = "no pagination: one page is read"
_PREVIEW = "`spark-cdk preview {}` shows why there is a next page"


Role: TypeAlias = Literal["number", "offset", "size"]
"""The meaning of a page parameter: the page's number, how many records precede it, or how many it has."""

_ROLES: Mapping[Role, Sequence[str]] = {"number": _NUMBERS, "offset": _OFFSETS, "size": SIZES}


def role(name: str) -> Role | None:
    """Return the role of a parameter with this name; None if it has none."""
    return next((role for role, names in _ROLES.items() if plain(name) in names), None)


def is_token(name: str) -> bool:
    """Whether a parameter of this name takes the value by which a response names the next page."""
    return plain(name) in _TOKENS


class PaginatorGuess(Struct, frozen=True):
    """A paginator, or None.

    handled: parameters that the request must not send itself, because the paginator sends or replaces them.
    always: parameters to send with each request.
    suspect: whether parameters suggest that pages exist, although no paginator was found.
    probe: a parameter with the value for the second page, if a read ends with an empty page.
    """

    component: JsonObject | None
    guess: Guess | None
    handled: frozenset[str] = frozenset()
    always: Mapping[str, str] = field(default_factory=dict)
    probe: Parameter | None = None
    suspect: bool = False


class PageFacts(Struct, frozen=True):
    """The known facts about a stream's pages.

    parameters: of the query and the body. leaves: fields of the body outside the records, by path. headers: of the
    response, with their values, empty if unknown. key: the records' primary key. is_list: whether the body itself is
    the list of records. default_location: the location of parameters that the request does not have yet.
    """

    stream: str
    parameters: Mapping[str, Parameter]
    leaves: Mapping[tuple[str, ...], Mapping[str, JsonValue]]
    headers: Mapping[str, str]
    text: str
    key: str | None
    is_list: bool = False
    default_location: str = "query"

    def location(self, parameter: str) -> str:
        """Return the location of a parameter in a request."""
        known = self.parameters.get(parameter)
        return self.default_location if known is None else known.location

    def option(self, parameter: str) -> JsonObject:
        """Return the request option that sets a parameter."""
        return parameter_option(parameter, self.location(parameter))


def guess_paginator(pages: PageFacts) -> PaginatorGuess:
    """Return the paginator that fits best; a next page named by the response takes precedence over numbers."""
    for kind in (_by_url, _by_token, _by_link, _by_number, _by_offset):
        if (paginator := kind(pages)) is not None:
            return paginator
    suspect = first_of(pages.parameters, (*SIZES, *_TOKENS))
    why = "nothing has such a name"
    if suspect is not None:
        why = f"there is a parameter `{suspect}`, but nothing that leads to the next page"
    return PaginatorGuess(None, Guess(_ONE_PAGE, why, "look in the API's documentation"), suspect=suspect is not None)


def as_most_streams(paging: PaginatorGuess, pages: PageFacts, others: Iterable[PaginatorGuess]) -> PaginatorGuess:
    """Return most other streams' paginator, for a stream with page parameters but no hint in its response."""
    fitting = [each for each in others if each.component is not None and not (pages.is_list and _reads_body(each))]
    common = Counter(canonical(each.component) for each in fitting).most_common(1)
    if not paging.suspect or not common:
        return paging
    other = next(each for each in fitting if canonical(each.component) == common[0][0])
    component = dict(as_object(other.component))
    size = as_string(as_object(component.get("page_size_option")).get("field_name"))
    if size and size not in pages.parameters:
        strategy = {
            key: value for key, value in as_object(component["pagination_strategy"]).items() if key != "page_size"
        }
        component = {**component, "pagination_strategy": strategy}
        del component["page_size_option"]
    if as_string(as_object(component["page_token_option"]).get("field_name")) not in {"", *pages.parameters}:
        return paging
    what = "" if other.guess is None else other.guess.what
    guess = Guess(what, "most other streams have it", _PREVIEW.format(pages.stream))
    always = {name: value for name, value in other.always.items() if name in pages.parameters}
    return replace(other, component=component, guess=guess, always=always)


def _reads_body(paging: PaginatorGuess) -> bool:
    return "response" in as_string(
        as_object(as_object(paging.component).get("pagination_strategy")).get("cursor_value")
    )


def _by_url(pages: PageFacts) -> PaginatorGuess | None:
    def is_url(path: tuple[str, ...], schema: Mapping[str, JsonValue]) -> bool:
        last, both = plain(path[-1]), "".join(map(plain, path[-2:]))
        example = str(schema.get("example"))
        uri = str(schema.get("format")) in {"uri", "url", "uri-reference"} or example.startswith("http")
        described = _LOCATOR.search(as_string(schema.get("description"))) is not None
        return last in _NEXT_URLS or both in _NEXT_URLS or (last == "next" and (uri or described or "links" in path))

    if (path := _path(pages, is_url)) is None:
        return None
    option: JsonObject = {"type": "RequestPath"}
    return following(pages, option, value_at(path), what=f"the URL in `{'.'.join(path)}` of the body", why="its name")


def _by_token(pages: PageFacts) -> PaginatorGuess | None:
    known = {
        name: each
        for name, each in pages.parameters.items()
        if not (plain(name) == "offset" and each.kinds & {"integer", "number"})
    }
    leaves = {plain(path[-1]) for path in pages.leaves}
    # A feed repeats its position when it has nothing new, so a position is not a page token.
    own = [plain(name) for name in known if f"next{plain(name)}" in leaves and "position" not in words(name)]
    parameter = first_of(known, [*own, *_TOKENS])
    if parameter is None or (first_of(pages.parameters, [f"use{plain(parameter)}"]) and _integer(pages, _OFFSETS)):
        return None
    names = {plain(parameter), f"next{plain(parameter)}", "next"}

    def holds_token(path: tuple[str, ...], _: Mapping[str, JsonValue]) -> bool:
        last, both = plain(path[-1]), "".join(map(plain, path[-2:]))
        return last in _NEXT_TOKENS or both in _NEXT_TOKENS or last in names

    option = pages.option(parameter)
    if (path := _path(pages, holds_token)) is not None:
        what = f"`{parameter}`, with `{'.'.join(path)}` of the body"
        return following(pages, option, value_at(path), what=what, why=_NAMES, parameter=parameter)
    more = _path(pages, lambda path, _: plain(path[-1]) in _MORE)
    if more is not None and pages.key is not None:
        what = f"`{parameter}`, with the last record's `{pages.key}` while `{'.'.join(more)}` holds"
        last, stop = f"last_record[{quoted(pages.key)}]", expression(f"not {value_at(more)}")
        return following(pages, option, last, what=what, why=_NAMES, parameter=parameter, stop=stop)
    return None


def by_next_field(pages: PageFacts) -> Iterator[PaginatorGuess]:
    """Yield paginators that send a field of the body that names the next page in a parameter that may request it.

    First come parameters of the request, then the field's name without `next`, then common names.
    """
    named = (where for where in pages.leaves if plain(where[-1]) in _NEXT_TOKENS or words(where[-1])[:1] == ["next"])
    if (path := next(named, None)) is None:
        return
    requested = [name for name in pages.parameters if role(name) in {"number", "offset"} or plain(name) in _TOKENS]
    own = re.sub(r"^next[_.\-]?", "", path[-1], flags=re.IGNORECASE)
    own = own[:1].lower() + own[1:]
    for parameter in dict.fromkeys([*requested, *filter(None, [own]), *_USUAL_TOKEN_PARAMETERS]):
        option = pages.option(parameter)
        what = f"`{parameter}`, with `{'.'.join(path)}` of the body"
        yield following(pages, option, value_at(path), what=what, why="it was tried", parameter=parameter)


def _by_link(pages: PageFacts) -> PaginatorGuess | None:
    for name, value in pages.headers.items():
        if plain(name) in _NEXT_URLS or ("next" in words(name) and value.startswith(("http://", "https://", "/", "?"))):
            following_url = f"headers.get({quoted(name.lower())})"
            what = f"the URL in the header `{name}`"
            return following(pages, {"type": "RequestPath"}, following_url, what=what, why="the response has it")
    in_headers = any(name.lower() == "link" for name in pages.headers)
    texts = (pages.text, *(each.text for each in pages.parameters.values()))
    if not in_headers and not any(map(_LINK_HEADER.search, texts)):
        return None
    value = "headers['link'].get('next', {}).get('url')"
    why = "the response has it" if in_headers else "the description mentions it"
    return following(pages, {"type": "RequestPath"}, value, what="the header `Link`", why=why)


def _by_number(pages: PageFacts) -> PaginatorGuess | None:
    if (parameter := _integer(pages, _NUMBERS)) is None:
        return None
    schema = pages.parameters[parameter].schema
    first = 0 if 0 in (schema.get("default"), schema.get("minimum")) else 1
    strategy: JsonObject = {"type": "PageIncrement", "start_from_page": first, "inject_on_first_request": True}
    what = f"page number in `{parameter}`, the first is {first}"
    return counting(pages, strategy, parameter, 1 + first, what=what)


def _by_offset(pages: PageFacts) -> PaginatorGuess | None:
    if (parameter := _integer(pages, _OFFSETS)) is None or first_of(pages.parameters, SIZES) is None:
        return None
    return counting(pages, {"type": "OffsetIncrement"}, parameter, 1, what=f"offset in `{parameter}`")


def counting(
    pages: PageFacts, strategy: JsonObject, parameter: str, second: int, *, what: str, why: str = _NAMES
) -> PaginatorGuess:
    """Return a paginator that counts.

    It ends at a page that is not full if the size is documented, else at an empty one.
    second: the value that requests the second page.
    """
    sized = _size(pages)
    size, number, documented = sized or ("", 0, False)
    paginator: JsonObject = {"type": "DefaultPaginator", "pagination_strategy": strategy}
    paginator["page_token_option"] = pages.option(parameter)
    handled, always = {parameter}, dict[str, str]()
    if sized is not None:
        handled.add(size)
        what = f"{what}, {number} records a page in `{size}`"
        if documented:
            strategy["page_size"] = number
            paginator["page_size_option"] = pages.option(size)
        else:
            always = {size: str(number)}
    if not documented:
        what = f"{what}, up to an empty page"
    guess = Guess(f"pagination: {what}", why, _PREVIEW.format(pages.stream))
    probe = None if documented else known_parameter(parameter, second, pages.location(parameter))
    return PaginatorGuess(paginator, guess, frozenset(handled), always, probe)


def following(
    pages: PageFacts, option: JsonObject, value: str, *, what: str, why: str, parameter: str = "", stop: str = ""
) -> PaginatorGuess:
    """Return a paginator for pages that each response names. Requests the largest documented page size."""
    strategy: JsonObject = {"type": "CursorPagination", "cursor_value": expression(value)}
    if stop:
        strategy["stop_condition"] = stop
    paginator: JsonObject = {"type": "DefaultPaginator", "pagination_strategy": strategy, "page_token_option": option}
    handled = {parameter} - {""}
    numbers = {name for name in _numeric(pages) if plain(name) in (*_NUMBERS, *_OFFSETS)}
    if (sized := _size(pages)) is not None:
        size, number, documented = sized
        handled.add(size)
        if documented:
            strategy["page_size"] = number
            paginator["page_size_option"] = pages.option(size)
    guess = Guess(f"pagination: {what}", why, _PREVIEW.format(pages.stream))
    return PaginatorGuess(paginator, guess, frozenset(handled | numbers))


def value_at(path: Sequence[str]) -> str:
    """Return the expression of a value in the body; it tolerates that the value or an object around it is missing."""
    inner = "response"
    for name in path[:-1]:
        inner = f"({inner}.get({quoted(name)}) or {{}})"
    return f"{inner}.get({quoted(path[-1])})"


def _path(pages: PageFacts, fits: Callable[[tuple[str, ...], Mapping[str, JsonValue]], bool]) -> tuple[str, ...] | None:
    return next((path for path, schema in pages.leaves.items() if fits(path, schema)), None)


def _integer(pages: PageFacts, known: Sequence[str]) -> str | None:
    """Return the parameter that has one of these names and takes a number."""
    return first_of(_numeric(pages), known)


def _numeric(pages: PageFacts) -> Sequence[str]:
    return [name for name, each in pages.parameters.items() if not each.kinds or each.kinds & {"integer", "number"}]


def _size(pages: PageFacts) -> tuple[str, int, bool] | None:
    """Return the page size parameter, its value, and whether the description confirms the value."""
    name = first_of(pages.parameters, SIZES)
    if name is None:
        return None
    schema = pages.parameters[name].schema
    for key in ("maximum", "default"):
        if type(number := schema.get(key)) is int and number > 0:
            return name, min(number, _LARGEST), True
    return name, _USUAL, False
