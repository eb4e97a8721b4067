"""Detection: finds a stream's records and pagination in live responses, by trying out guesses."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, takewhile
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from cdk.authoring.candidates import key_candidates
from cdk.authoring.drafts.draft import Guess, known_parameters, record_selector
from cdk.authoring.drafts.names import plain, problem_of, record_lists
from cdk.authoring.drafts.pagination import PageFacts, PaginatorGuess, by_next_field, guess_paginator, is_token, role
from cdk.authoring.preview import PreviewPage, preview_pages
from cdk.base.errors import CdkError, ConfigError, DecodeError
from cdk.base.values import JsonObject, JsonValue, as_list, as_object, as_string, canonical, json_kind
from cdk.base.wording import did_you_mean
from cdk.declarative.source import ManifestSource
from cdk.protocol.reports import error_text
from cdk.rest import GzipFile, JsonDocument, Jsonl, Response
from cdk.rest.http.json_path import path
from cdk.rest.http.messages import query_of
from cdk.rest.pagination.page_signs import full_page_doubt, unread_total, unused_next_page
from cdk.rest.tracing import Exchange
from cdk.state.stream_state import StreamState
from cdk.streams.stream import Stream

_PAGES = {"page": "page", "currentpage": "page", "pagenumber": "pageNumber", "pageindex": "pageIndex"}
"""Fields of responses that repeat the number of the page, in lower case, each with the parameter that it may come from.
"""

_OTHERS = ("offset", "skip", "startat", "startindex", "limit", "perpage", "pagesize", "size", "maxresults")
"""Fields of responses that repeat other parameters of pagination, which have the same names."""

_NEXT_FIELDS = 6
"""The most parameters that are tried together with a field that names the next page."""

_DEEPEST = 4
"""The most levels of objects in which fields of a body are searched."""

_PARAMETERS = ("request_parameters", "request_body_json", "request_body_data")
_JSON_LINES = re.compile(r"nd-?json|json-?l")
_GZIP = b"\x1f\x8b"
_NOT_TRIED = (
    "the names in request and response; it was not tried: requests other than GET may write, so they are sent only once"
)


class NoRecords(ConfigError):
    """Raised when a response has no list that may hold records; its `body` may be a single record.

    decoder: as in `Detection`.
    """

    def __init__(self, message: str, body: JsonValue, decoder: JsonObject | None) -> None:
        super().__init__(message)
        self.body, self.decoder = body, decoder


class Trial(Struct, frozen=True):
    """A paginator that was tried.

    works: None if the responses do not tell. retriever: the fields to change in the stream's.
    suggested: whether there is evidence for it: the request or the response has a trace of it, or its first page, when
    requested explicitly, has the same records. Without evidence, it is merely common among APIs.
    """

    paginator: PaginatorGuess
    retriever: Mapping[str, JsonValue]
    works: bool | None
    why: str
    suggested: bool
    requested: bool
    """Whether the unchanged request already sends the parameter that asks for a page."""

    @property
    def guess(self) -> Guess:
        """The description of the paginator, in words."""
        assert self.paginator.guess is not None
        return self.paginator.guess


class Detection(Struct, frozen=True):
    """The findings in the first response of a stream. path: of its records. exchanges: everything that was sent.

    records: those of the first response. others: other lists that may be meant, with their number of objects.
    doubt: what suggests that the response does not have all records; empty if nothing does. decoder: the component that
    reads the body; None for a JSON document.
    """

    path: Sequence[str]
    records: Sequence[JsonValue]
    others: Mapping[str, int]
    trials: Sequence[Trial]
    exchanges: Sequence[Exchange]
    doubt: str = ""
    decoder: JsonObject | None = None

    @property
    def best(self) -> Trial | None:
        """The paginator that works or, if no such is certain, one that may work and is supported by evidence.

        A parameter that many APIs use for pages may be a filter of this API, which then also returns an empty page.
        Among uncertain paginators, those whose parameter the request has come first: without the parameter, a header
        `Link` may name no next page.
        """
        likely = [each for each in self.trials if each.works or (each.works is None and each.suggested)]
        return min(likely, key=lambda each: (not each.works, not each.requested), default=None)


def detect_pages(
    source: ManifestSource, config: Mapping[str, JsonValue], name: str, *, once: bool = False
) -> Detection:
    """Return what the first response of a stream shows; sends up to about twenty requests.

    Tries the manifest's own paginator first. once: send a single request and try no paginator; those that request and
    response suggest may work.

    Raises NoRecords, and ConfigError: when the manifest's list has no such stream, its first page is not JSON, or its
    records are missing or not objects. Also raises any error of the first request.
    """
    trials = _Trials(source, config, name)
    first = trials.read({}, ())[0]
    if first.error is not None and not isinstance(first.error, DecodeError):
        raise first.error
    body, decoder = _decoded(first)
    if first.error is not None and decoder is None:
        raise first.error
    trials.decoder = decoder
    assert first.answer is not None
    lists = record_lists(body, urlsplit(first.answer.request.full_url).path)
    if not lists:
        words = f"{name}: the response is {json_kind(body)} without a list of objects, expected records"
        raise NoRecords(words, body, decoder)
    where, *others = lists
    records = lists[where]
    if problem := problem_of(records):
        raise ConfigError(f"{name}: found {_shown(where)} {problem}")
    tried: list[Trial] = []
    guesses = _guesses(name, first.answer, body, where, records, once=once)
    for guess, suggested in chain(() if once else trials.own(), guesses):
        tried.append(trials.trial(guess, where, None if once else records, suggested=suggested))
        if tried[-1].works:
            break
    further = {_shown(path): len(lists[path]) for path in others if not problem_of(lists[path])}
    outcome = first.answer.outcome
    assert isinstance(outcome, Response)  # since it could be decoded
    count = len(records)
    doubt = unused_next_page(outcome) or unread_total(outcome, count) or full_page_doubt(outcome, count)
    return Detection(where, records, further, tried, trials.exchanges, doubt, decoder)


def _shown(path: Sequence[str]) -> str:
    return f"`{' > '.join(path)}`" if path else "the body"


class _Trials:
    """Reads the first pages of a stream with other paginators than the manifest's. decoder: None for JSON documents."""

    def __init__(self, source: ManifestSource, config: Mapping[str, JsonValue], name: str) -> None:
        self._source, self._config, self._name, self._manifest = source, config, name, source.resolved
        streams = [as_object(each) for each in as_list(self._manifest.get("streams"))]
        self._retriever = next((as_object(each.get("retriever")) for each in streams if each.get("name") == name), {})
        if self._retriever.get("type") != "SimpleRetriever":
            names = did_you_mean(name, [as_string(each.get("name")) for each in streams])
            raise ConfigError(f"the list `streams` of the manifest has no {name!r} with a SimpleRetriever{names}")
        self.exchanges: list[Exchange] = []
        self.decoder: JsonObject | None = None

    def own(self) -> Iterator[tuple[PaginatorGuess, bool]]:
        """Yield the manifest's own paginator, if any, in the form in which `_guesses` yields others."""
        if (paginator := as_object(self._retriever.get("paginator"))).get("type") == "DefaultPaginator":
            yield PaginatorGuess(dict(paginator), Guess("the paginator that the manifest has", "", "")), True

    def read(self, changes: Mapping[str, JsonValue], where: Sequence[str]) -> list[PreviewPage]:
        """Read the first two pages of the first slice with parts of the retriever changed, such as its paginator."""
        retriever = {key: part for key, part in self._retriever.items() if key not in {"paginator", "decoder"}}
        retriever |= {"record_selector": record_selector(where), **({"decoder": self.decoder} if self.decoder else {})}
        retriever |= changes
        streams: list[JsonValue] = [
            {**each, "retriever": retriever} if each.get("name") == self._name else each
            for each in map(as_object, as_list(self._manifest.get("streams")))
        ]
        source = self._source.revised({**self._manifest, "streams": streams})
        stream: Stream = next(each for each in source.open(self._config) if each.name == self._name)
        pages = preview_pages(stream, StreamState())
        first = next(pages)
        taken = [first, *takewhile(lambda page: page.slice == first.slice, islice(pages, 1))]
        pages.close()
        self.exchanges += chain.from_iterable((*page.planning, *page.exchanges) for page in taken)
        return taken

    def trial(
        self, guess: PaginatorGuess, where: Sequence[str], records: Sequence[JsonValue] | None, *, suggested: bool
    ) -> Trial:
        """Try a paginator. records: those of the first page; None: do not try it. suggested: as in `Trial`."""
        assert guess.component is not None
        changes: JsonObject = {"paginator": guess.component}
        requester = as_object(self._retriever.get("requester"))
        parts = _parts(requester)
        changed = _changed(requester, parts, guess)
        if changed:
            changes["requester"] = {**requester, **changed}
        requested = any(_token(guess) in fields for fields in parts.values())
        works: bool | None
        if records is None:
            works, why = None, _NOT_TRIED
        else:
            try:
                works, why = _verdict(self.read(changes, where), where, () if requested else records)
            except CdkError as error:
                works, why = False, error_text(error)
        retriever: JsonObject = {"paginator": guess.component}
        if changed:
            retriever["requester"] = changed
        return Trial(guess, retriever, works, why, suggested, requested)


def _parts(requester: Mapping[str, JsonValue]) -> Mapping[str, Mapping[str, JsonValue]]:
    """Return the parts of a requester that hold parameters, by their keys."""
    parts = {key: as_object(requester.get(key)) for key in _PARAMETERS}
    return {**parts, "request_body": as_object(as_object(requester.get("request_body")).get("value"))}


def _changed(
    requester: Mapping[str, JsonValue], parts: Mapping[str, Mapping[str, JsonValue]], guess: PaginatorGuess
) -> JsonObject:
    """Return the parts of a requester that change, because the paginator sends some parameters and fixes others."""
    known = {name for fields in parts.values() for name in fields}
    changed: JsonObject = {}
    for key, fields in parts.items():
        rest = {name: value for name, value in fields.items() if name not in guess.handled}
        names = {*fields, *(guess.always.keys() - known if key == _PARAMETERS[0] else ())}
        always = {name: value for name, value in guess.always.items() if name in names}
        fixed: JsonObject = {**rest, **always}
        if fixed != fields:
            changed[key] = {**as_object(requester["request_body"]), "value": fixed} if key == "request_body" else fixed
    return changed


def _verdict(
    pages: Sequence[PreviewPage], where: Sequence[str], records: Sequence[JsonValue]
) -> tuple[bool | None, str]:
    """Return whether the second page follows the first, and the reason.

    records: must reappear on the first, if given.
    """
    if (error := pages[-1].error) is not None:
        return False, error_text(error)
    first = _records_at(where, pages[0])
    if not first or (records and not _ids(records, records) & _ids(first, records)):
        what = "has other records than the unchanged request: it would miss those" if first else "is empty"
        return False, f"its first page {what}"
    if len(pages) == 1 or not pages[1].exchanges:
        note = pages[0].note
        return None, f"the first response has no next page{f': {note.why}' if note is not None and note.why else ''}"
    known = set(map(canonical, first))
    second = _records_at(where, pages[1])
    if not second:
        return None, "the next page is empty"
    if again := sum(canonical(record) in known for record in second):
        return False, f"{again} of the {len(second)} records of the next page are those of the first"
    return True, f"the next page has {len(second)} other records"


def _ids(records: Sequence[JsonValue], known: Sequence[JsonValue]) -> set[str]:
    """Return the records' values of the likely key, which `known` shows; without a key, the whole records."""
    key = _key(known)
    return {canonical(record if key is None else as_object(record).get(key)) for record in records}


def _key(records: Sequence[JsonValue]) -> str | None:
    return next(iter(key_candidates([dict(as_object(record)) for record in records])), None)


def _token(guess: PaginatorGuess) -> str:
    """Return the name of the parameter that selects a page."""
    return as_string(as_object(as_object(guess.component).get("page_token_option")).get("field_name"))


def _guesses(
    name: str, exchange: Exchange, body: JsonValue, where: Sequence[str], records: Sequence[JsonValue], *, once: bool
) -> Iterator[tuple[PaginatorGuess, bool]]:
    """Yield the paginators to try, the likely ones first: those that request and response suggest, then common ones.

    Each comes with whether request or response suggest it. once: yield only these, because none is tried.
    """
    request, response = exchange.request, exchange.outcome
    leaves = dict(_leaves(body, (), tuple(where)))
    part, in_body = request.body_fields
    default_location = part or "query"
    sent = {
        **known_parameters(in_body, default_location),
        **known_parameters(dict(query_of(request.full_url)), "query"),
    }
    echoed = {
        _PAGES.get(plain(keys[-1]), keys[-1]): value
        for keys, value in leaves.items()
        if type(value) is int and plain(keys[-1]) in (*_PAGES, *_OTHERS)
    }
    # Parameters of the request take precedence over fields of the response with the same role.
    roles = {role(key) for key in sent} - {None}
    shown = known_parameters({key: value for key, value in echoed.items() if role(key) not in roles}, default_location)
    usual = ({"page": 1}, {"page": 0}, {"offset": 0, "limit": len(records)})
    headers = dict(response.headers) if isinstance(response, Response) else {}
    schemas = {keys: _schema(value) for keys, value in leaves.items()}
    facts = PageFacts(name, {**shown, **sent}, schemas, headers, "", _key(records), default_location=default_location)
    bare = replace(facts, leaves={}, headers={})
    named = by_next_field(facts)
    if once:
        # The matching names of field and parameter are the only evidence here.
        fields = {plain(keys[-1]) for keys in leaves}
        named = (each for each in named if is_token(_token(each)) and f"next{plain(_token(each))}" in fields)
    guesses = chain(
        [(True, guess_paginator(facts))],
        ((once, each) for each in islice(named, _NEXT_FIELDS)),
        [(True, guess_paginator(replace(bare, parameters={**sent, **shown})))],
        (
            (False, guess_paginator(replace(bare, parameters={**sent, **known_parameters(each, default_location)})))
            for each in (() if once else usual)
        ),
    )
    tried: set[str] = set()
    for suggested, guess in guesses:
        if guess.component is not None and (text := canonical(guess.component)) not in tried:
            tried.add(text)
            strategy = as_object(as_object(guess.component).get("pagination_strategy"))
            yield guess, suggested or strategy.get("inject_on_first_request") is True


def _schema(value: JsonValue) -> Mapping[str, JsonValue]:
    url = isinstance(value, str) and value.startswith(("/", "?"))
    return {"example": value, **({"format": "uri-reference"} if url else {})}


def _leaves(
    value: JsonValue, keys: tuple[str, ...], where: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    """Yield the fields of a body outside its records, with their paths."""
    if isinstance(value, Mapping) and len(keys) < _DEEPEST and keys != where:
        for name, inner in value.items():
            yield from _leaves(inner, (*keys, name), where)
    elif not isinstance(value, list | Mapping) and keys:
        yield keys, value


def _records_at(where: Sequence[str], page: PreviewPage) -> Sequence[JsonValue]:
    """Return the records of a page, those of the stream if the body is no longer there because it was streamed."""
    outcome = None if page.answer is None else page.answer.outcome
    streamed = isinstance(outcome, Response) and outcome.is_stream
    return [dict(each) for each in page.records] if streamed else as_list(path(*where)(_decoded(page)[0]))


def _decoded(page: PreviewPage) -> tuple[JsonValue, JsonObject | None]:
    """Return the body of a page as JSON, and the decoder that a manifest needs for it; None for a JSON document.

    Raises ConfigError: when the page has no body. DecodeError: when the body is neither JSON nor lines of JSON.
    """
    response = None if page.answer is None else page.answer.outcome
    if not isinstance(response, Response) or response.is_stream:
        raise ConfigError("the stream's first page has no response that can be examined")
    packed = response.body.startswith(_GZIP)
    body: JsonValue
    try:
        body, inner = GzipFile(JsonDocument(lenient=True)).decode(response), "JsonDecoder"
        if isinstance(body, Mapping) and _JSON_LINES.search(response.headers.get("content-type", "")):
            body, inner = [body], "JsonlDecoder"
    except DecodeError as error:
        try:
            body, inner = GzipFile(Jsonl()).decode(response), "JsonlDecoder"
        except DecodeError:
            raise error from None
    if packed:
        return body, {"type": "GzipDecoder", "decoder": {"type": inner}}
    return body, None if inner == "JsonDecoder" else {"type": inner}
