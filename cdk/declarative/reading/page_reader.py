"""PageReader: the pages of a slice, one request each, from the first or from where a cut read stopped."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import orjson

from cdk.base.errors import CdkError, DecodeError, NotFound, PaginationLoop, StaleToken
from cdk.base.values import Json, Record, from_json, to_json
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.plug_points import Incremental, PageResult, Pages, Requester, Router, Select
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.slice_names import FIRST_PAGE, slice_names, view
from cdk.declarative.reading.page_size_reduction import PageSizes, Reduction
from cdk.declarative.reading.query_properties import Properties, with_properties
from cdk.rest import BadRequest, Decoder, Headers, JsonDocument, Response
from cdk.rest.errors.signals import ReducePageSize
from cdk.rest.pagination.page_url import saved_token
from cdk.rest.records.extractor import CountedRecords, Extractor, FieldExtractor
from cdk.state.position import Checkpoint, Start
from cdk.state.slice import Slice
from cdk.streams.paged import Circle
from cdk.streams.stream import Item, Page

TOKEN = "next_page_token"  # noqa: S105 - the name under which expressions and states know it


_NO_CONTENT = 204

_SAME = 3
"""As many pages in a row that are the same to the byte are no accident: the API ignores what asks for the next one."""

_LARGE = 2**20
"""Bytes from which of a page's body only a hash is kept."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """A page that is not the last. token: of the next page, as the API gave it; saved: as the state keeps it."""

    page: Page
    token: Json
    saved: Json


class _Repeats:
    """Notices pages that come again and again, each under another token."""

    def __init__(self) -> None:
        self._last: bytes | int | None = None
        self._times = 1

    def look(self, page: "_FetchedPage", token: Json) -> None:
        """Look at a page with records that is not the last one. Raises PaginationLoop: it is the one before, again."""
        if page.raw == 0 or page.response.request.stream:
            return
        body = page.response.body
        mark = body if len(body) < _LARGE else hash(body)
        self._times = self._times + 1 if mark == self._last else 1
        self._last = mark
        if self._times >= _SAME:
            raise PaginationLoop(
                f"{page.response.request}: {_SAME} pages in a row are the same, the last for {token!r}: the API "
                "ignores what asks for the next page; check `page_token_option` and the paginator"
            )


@dataclass(slots=True)
class _FetchedPage:
    """What a page was found to hold: its last answer, the records in that, and those that were kept."""

    response: Response
    raw: int
    selected: int
    last: Mapping[str, Json] | None
    records: Sequence[Record]


class PageReader:
    """Reads slices page by page. Shares nothing between slices but the client.

    select: makes the stream's records of those that were extracted; None where they are the same.
    changes: records are changed after they are decoded. only_first: the partition and the window are said with the
    first page only. json: bodies are JSON; other formats that `decoder` reads whole are shown to expressions, too.
    properties: what to ask for, in several requests if need be. reduction: how pages shrink that the API refuses.
    lazy: partitions may hold their first page, see FIRST_PAGE.
    """

    def __init__(
        self,
        *,
        ctx: BuildContext,
        router: Router | None,
        requester: Requester,
        extractor: Extractor,
        select: Select | None,
        pages: Pages | None,
        incremental: Incremental | None,
        changes: bool,
        only_first: bool,
        json: bool,
        decoder: Decoder | None = None,
        properties: Properties | None = None,
        reduction: Reduction | None = None,
        lazy: bool = False,
    ) -> None:
        self.router = router
        self._ctx, self._requester, self._extractor, self._select, self._pages = (
            ctx,
            requester,
            extractor,
            select,
            pages,
        )
        self._incremental, self._only_first, self._json = incremental, only_first, json
        self._decoder = decoder if decoder is not None and not decoder.streams and not json else None
        self._properties, self._reduction, self._lazy = properties, reduction, lazy
        # Transformations change what was decoded; an expression that looks for the next page wants it as it came.
        untouched = select is None and properties is None and (pages is None or not pages.reads_body)
        self._cut = _cut(extractor) if untouched else None
        self._copies = changes and pages is not None and pages.reads_body

    def read(self, slice: Slice) -> Iterator[Item]:
        names = slice_names(view(slice, self._ctx.window))
        saved = slice.start.cursor.get(TOKEN) if isinstance(slice.start, Checkpoint) else None
        token = saved if saved is not None or self._pages is None else self._pages.first()
        sizes = PageSizes(self._reduction, None if self._pages is None else self._pages.size())
        if saved is not None:
            assert isinstance(slice.start, Checkpoint)
            self._check_counts(slice.start.cursor, sizes)
        circle = Circle(slice, token)
        repeats = _Repeats()
        while True:
            turn: _Turn | None = None
            for page in self._page(slice, token, names, sizes, repeats, saved=token is not None and token == saved):
                if isinstance(page, _Turn):
                    turn = page
                    yield turn.page._replace(trail=circle.trail_after(turn.saved))
                elif isinstance(page, Page):
                    yield page
                else:
                    yield from page
            if turn is None:
                return
            token = turn.token
            circle.check(turn.saved)

    def _page(
        self, slice: Slice, token: Json, names: dict[str, Json], sizes: PageSizes, repeats: _Repeats, *, saved: bool
    ) -> Iterator["_Turn | Page | Sequence[Record]"]:
        names = {**names, TOKEN: None if token is None else {TOKEN: token}}
        if self._properties is not None:
            page = self._merged(self._properties, slice, token, names, sizes, saved=saved)
        else:
            response = self._answer(slice, token, names, sizes, saved=saved)
            if response is None or not response.ok or response.status == _NO_CONTENT:
                yield Page((), None)
                return
            page = _FetchedPage(response, 0, 0, None, [])
            for listed in self._records(page, names):
                yield self._in_feed(listed, slice)
        if sizes.reducible:
            sizes.succeeded()
        records = page.records
        try:
            following = self._following(page, token, names, sizes.asked)
        except CdkError:
            # What was read is handed on before it is said that the next page cannot be found.
            yield Page(records, None)
            raise
        if records and (recent := self._in_feed(records, slice)) is not records:
            # Newest first: where the last record of a page is too old, all that follow are.
            following = following if recent and recent[-1] is records[-1] else None
            records = recent
        if following is not None:
            repeats.look(page, token)
        warning = "" if page.raw or not page.response.ok else self._absence(page.response)
        if following is None:
            yield Page(records, None, warning=warning)
        else:
            safe = saved_token(page.response.request, following)
            yield _Turn(Page(records, self._state(safe, sizes.asked), warning=warning), following, safe)

    def _absence(self, response: Response) -> str:
        """What to say of an answer that has nothing where records should lie."""
        if not isinstance(self._extractor, FieldExtractor):
            return ""
        absence = self._extractor.absence(response)
        return absence and (
            f"{self._ctx.stream}: {response.request} brought no records: there is {absence}; check `field_path`, "
            "unless the API leaves out what is empty"
        )

    def _in_feed(self, records: Sequence[Record], slice: Slice) -> Sequence[Record]:
        """The records of a feed that are not too old; those of other streams as they are."""
        if self._incremental is None or not self._incremental.data_feed:
            return records
        return [record for record in records if self._incremental.wants(record, slice.window)]

    def _state(self, token: Json, size: int | None) -> dict[str, Json]:
        """A token as states keep it, with what it counts: in another manifest it may ask for another place."""
        state = {TOKEN: token}
        if self._pages is not None and self._pages.counts is not None:
            state["counts"] = self._pages.counts
        if self._pages is not None and self._pages.counts != "records" and size is not None:
            state["page_size"] = size
        return state

    def _check_counts(self, saved: Mapping[str, Json], sizes: PageSizes) -> None:
        """Raise StaleToken: a saved token counts something else than the manifest does now."""
        sizes.resume(saved.get("page_size"))
        now = self._state(saved[TOKEN], sizes.asked)
        # A token of an older version says nothing of what it counts.
        if changed := [name for name, value in now.items() if saved.get(name, value) != value]:
            was = ", ".join(f"{name}: {saved[name]}" for name in changed)
            counts = ", ".join(f"{name}: {now[name]}" for name in changed)
            raise StaleToken(f"the page token saved by an earlier read has {was}, and the paginator now has {counts}")

    def _records(self, page: _FetchedPage, names: dict[str, Json]) -> Iterator[Sequence[Record]]:
        """The records of an answer but for the last list of them, which is left in `found`, with the counts."""
        if self._cut is not None and (lines := page.response.cut_out(self._cut)) is not None:
            page.raw = page.selected = len(lines)
            page.records, page.last = lines, lines.last()
            return
        first = True
        for listed in self._extractor.pages(page.response):
            if not first:
                yield page.records
            first = False
            page.raw += listed.raw if isinstance(listed, CountedRecords) else len(listed)
            records = self._select(listed, names) if listed and self._select is not None else listed
            page.records = records
            page.selected += len(records)
            page.last = records[-1] if records else page.last

    def _merged(
        self,
        properties: Properties,
        slice: Slice,
        token: Json,
        names: dict[str, Json],
        sizes: PageSizes,
        *,
        saved: bool,
    ) -> _FetchedPage:
        """A page that is asked for in several requests, each for some of the properties."""
        parts: list[list[dict[str, Json]]] = []
        page: _FetchedPage | None = None
        for chunk in properties.chunks():
            chunk_names = with_properties(names, chunk)
            response = self._send(slice, token, chunk_names, sizes.asked, saved=saved)
            page = _FetchedPage(response, 0, 0, None, [])
            if response.ok:
                parts.append([dict(record) for record in chain(*self._records(page, chunk_names), page.records)])
        assert page is not None
        page.records = properties.merged(parts)
        page.selected = len(page.records)
        page.last = page.records[-1] if page.records else None
        return page

    def _following(self, page: _FetchedPage, token: Json, names: dict[str, Json], size: int | None) -> Json:
        if self._pages is None or not page.response.ok:
            return None
        body = self._body(page.response) if self._pages.reads_body else {}
        return self._pages.next(PageResult(page.response, body, page.raw, page.selected, page.last, token, names), size)

    def _answer(
        self, slice: Slice, token: Json, names: dict[str, Json], sizes: PageSizes, *, saved: bool
    ) -> Response | None:
        """The answer that brings a page; None when the parent's record has said that there is nothing."""
        if self._lazy and token == self._first_token() and self._begins(slice):
            known = slice.extra[FIRST_PAGE]
            if not known:
                return None
            request = self._draft(slice, token, names, sizes.asked).request()
            return Response(200, Headers({}), to_json(known, str), request.url, request)
        if not sizes.reducible:
            return self._send(slice, token, names, sizes.asked, saved=saved)
        while True:
            try:
                return self._send(slice, token, names, sizes.asked, saved=saved)
            except ReducePageSize as refused:
                sizes.reduce(refused)

    def _first_token(self) -> Json:
        return None if self._pages is None else self._pages.first()

    def _begins(self, slice: Slice) -> bool:
        """Whether a slice is all there is of a partition that was never read, and its first page is known."""
        if FIRST_PAGE not in slice.extra or not isinstance(slice.start, Start):
            return False
        window = slice.window
        if window is None or self._incremental is None:
            return True
        return window.last and window.start == self._incremental.cursor.start

    def _send(self, slice: Slice, token: Json, names: dict[str, Json], size: int | None, *, saved: bool) -> Response:
        draft = self._draft(slice, token, names, size)
        try:
            return self._requester.client.send(draft.request())
        except (BadRequest, NotFound) as refused:
            if saved:
                raise StaleToken(f"the page token saved by an earlier read is refused: {refused}") from refused
            raise

    def _draft(self, slice: Slice, token: Json, names: dict[str, Json], size: int | None) -> RequestBuilder:
        draft = self._requester.draft(names)
        if self._pages is not None:
            self._pages.apply(draft, token, size)
        if not (self._only_first and token is not None):
            if self.router is not None:
                self.router.apply(draft, slice)
            if self._incremental is not None:
                self._incremental.apply(draft, slice)
        return draft

    def _body(self, response: Response) -> Json:
        """The body as expressions see it: nothing of one decoded as it comes, and of a list its first element."""
        try:
            if self._decoder is not None:
                body = self._decoder.decode(response)
            elif self._json:
                body = from_json(response.body) if self._copies else response.json()
            else:
                return {}
        except (DecodeError, orjson.JSONDecodeError):
            return {}
        if type(body) is list:
            return body[0] if body else {}
        return body


def _cut(extractor: Extractor) -> tuple[str, ...] | None:
    """The path of records that may stay text, when nothing but its own decoder stands between body and stream.

    In a body that is a list, objects without fields are left out.
    """
    if not isinstance(extractor, FieldExtractor) or extractor.expand is not None:
        return None
    return extractor.where if extractor.where and type(extractor.decoder) is JsonDocument else None
