"""SimpleRetriever: page after page, one request each; and RecordSelector, which makes records of a response."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Literal

import orjson
from pydantic import Field

from cdk.base.errors import DecodeError, NotFound, PaginationLoop, StaleToken
from cdk.base.values import Json
from cdk.declarative.component import Component, Default
from cdk.declarative.components.routers import PartitionRouters, router_of
from cdk.declarative.context import BuildContext, Names
from cdk.declarative.families import (
    AnyDecoder,
    AnyExtractor,
    AnyPaginator,
    AnyRecordFilter,
    AnyRequester,
    AnyRetriever,
    AnySchemaNormalization,
    Incremental,
    Pages,
    Requester,
    Router,
    Select,
    SliceReader,
    StreamParts,
    Turned,
)
from cdk.declarative.slices import SliceView, slice_names, view
from cdk.rest import BadRequest, JsonDecoder, Response
from cdk.rest.records import Counted, Extractor
from cdk.state.position import Checkpoint
from cdk.state.slice import Slice
from cdk.streams.stream import Item, Page

_TOKEN = "next_page_token"  # noqa: S105 - the name under which expressions and states know it


class RecordSelector(Component):
    """Makes records of a response: extracts, filters, transforms and casts them.

    Example:
        type: RecordSelector
        extractor: {type: DpathExtractor, field_path: [data]}
        record_filter: {type: RecordFilter, condition: "{{ record.active }}"}
    """

    type: Literal["RecordSelector"] = "RecordSelector"
    extractor: Annotated[AnyExtractor, Default("DpathExtractor", "CustomRecordExtractor")] = Field(
        description="Finds the records in a response."
    )
    record_filter: Annotated[AnyRecordFilter | None, Default("RecordFilter", "CustomRecordFilter")] = Field(
        None, description="Decides which records to keep."
    )
    schema_normalization: Literal["Default", "None"] | AnySchemaNormalization | None = Field(
        None, description="`Default` casts values to the types of the schema."
    )
    transform_before_filtering: bool | None = Field(
        None, description="Whether the filter sees transformed records. The default is false, except where the filter "
        "is the cursor (`is_client_side_incremental`)."
    )

    def select(self, ctx: BuildContext, parts: StreamParts) -> Select:
        """The function from extracted records to those of the stream."""
        steps: list[Select] = []
        if self.record_filter is not None:
            steps.append(self.record_filter.build(ctx))
        client_side = parts.incremental is not None and parts.incremental.client_side
        if client_side and parts.incremental is not None:
            steps.append(_in_window(parts.incremental))
        if parts.transforms:
            first = client_side if self.transform_before_filtering is None else self.transform_before_filtering
            steps.insert(0 if first else len(steps), _transforming(parts))
        if self.schema_normalization == "Default":
            steps.append(_normalizing(parts))
        elif isinstance(self.schema_normalization, AnySchemaNormalization):
            normalize = self.schema_normalization.build(ctx, parts.schema())

            def custom(records: list[dict[str, Json]], names: Names) -> list[dict[str, Json]]:  # noqa: ARG001
                normalize(records)
                return records

            steps.append(custom)
        return _chain(steps)


def _chain(steps: list[Select]) -> Select:
    if len(steps) == 1:
        return steps[0]

    def select(records: list[dict[str, Json]], names: Names) -> list[dict[str, Json]]:
        for step in steps:
            records = step(records, names)
        return records

    return select


def _transforming(parts: StreamParts) -> Select:
    transforms = parts.transforms

    def select(records: list[dict[str, Json]], names: Names) -> list[dict[str, Json]]:
        for transform in transforms:
            transform(records, names)
        return records

    return select


def _normalizing(parts: StreamParts) -> Select:
    known: list[Callable[[list[dict[str, Json]]], None]] = []

    def select(records: list[dict[str, Json]], names: Names) -> list[dict[str, Json]]:  # noqa: ARG001
        if not known:
            from cdk.declarative.normalize import normalizer
            known.append(normalizer(parts.schema()))
        known[0](records)
        return records

    return select


def _in_window(incremental: Incremental) -> Select:
    def select(records: list[dict[str, Json]], names: Names) -> list[dict[str, Json]]:
        seen: SliceView = names["stream_slice"]
        return [record for record in records if incremental.wants(record, seen.window)]

    return select


class SimpleRetriever(AnyRetriever):
    """Reads a slice page after page.

    Example:
        type: SimpleRetriever
        requester: {type: HttpRequester, url: "https://api.example.com/users"}
        record_selector:
          type: RecordSelector
          extractor: {type: DpathExtractor, field_path: []}
    """

    type: Literal["SimpleRetriever"] = "SimpleRetriever"
    requester: Annotated[AnyRequester, Default("HttpRequester", "CustomRequester")] = Field(
        description="What to ask for."
    )
    record_selector: RecordSelector = Field(description="Makes records of a response.")
    paginator: Annotated[AnyPaginator | None, Default("NoPagination")] = Field(
        None, description="How pages are found and asked for."
    )
    decoder: AnyDecoder | None = Field(None, description="Reads the bodies; JSON by default.")
    partition_router: PartitionRouters = Field(
        None, description="What the stream is read once for; a list means every combination."
    )
    ignore_stream_slicer_parameters_on_paginated_requests: bool = Field(
        False, description="Whether only the first page is asked for with the partition's and the cursor's parameters."
    )

    def build(self, ctx: BuildContext, parts: StreamParts) -> SliceReader:
        """The reader."""
        decoder = JsonDecoder() if self.decoder is None else self.decoder.build(ctx)
        router = router_of(self.partition_router, ctx)
        return _PageReader(
            ctx=ctx,
            router=router,
            requester=self.requester.build(ctx, decoder=decoder, cached=parts.cached),
            extractor=self.record_selector.extractor.build(ctx, decoder),
            select=self.record_selector.select(ctx, parts),
            pages=None if self.paginator is None else self.paginator.build(ctx, decoder),
            incremental=parts.incremental,
            changes=bool(parts.transforms) or self.record_selector.schema_normalization == "Default",
            only_first=self.ignore_stream_slicer_parameters_on_paginated_requests,
            json=isinstance(decoder, JsonDecoder),
        )


class _PageReader:
    """Reads slices page by page. Shares nothing between slices but the client."""

    def __init__(
        self,
        *,
        ctx: BuildContext,
        router: Router | None,
        requester: Requester,
        extractor: Extractor,
        select: Select,
        pages: Pages | None,
        incremental: Incremental | None,
        changes: bool,
        only_first: bool,
        json: bool,
    ) -> None:
        self.router = router
        self._ctx, self._requester, self._extractor, self._select, self._pages = ctx, requester, extractor, select, pages
        self._incremental, self._only_first, self._json = incremental, only_first, json
        # Transformations change what was decoded; an expression that looks for the next page wants it as it came.
        self._copies = changes and pages is not None and pages.reads_body

    def read(self, slice: Slice) -> Iterator[Item]:
        """See SliceReader."""
        names = slice_names(view(slice, self._ctx.window))
        saved = slice.start.cursor.get(_TOKEN) if isinstance(slice.start, Checkpoint) else None
        token = saved if saved is not None or self._pages is None else self._pages.first()
        # Brent's way of finding a cycle holds one token, however many pages there are.
        held, steps, limit = token, 0, 1
        while True:
            following = None
            for page in self._page(slice, token, names, saved=token is not None and token == saved):
                if isinstance(page, list):
                    yield from page
                else:
                    following = page.next
                    yield page
            if following is None:
                return
            token = following[_TOKEN]
            if token == held:
                raise PaginationLoop(f"the page of {token!r} is named as the next one again; nothing would be new")
            steps += 1
            if steps == limit:
                held, steps, limit = token, 0, 2 * limit

    def _page(self, slice: Slice, token: Json, names: dict[str, Json], *, saved: bool) -> Iterator[Page | list[Json]]:
        names = {**names, _TOKEN: None if token is None else {_TOKEN: token}}
        response = self._ask(slice, token, names, saved=saved)
        if not response.ok:
            yield Page((), None)
            return
        raw = kept = 0
        records: list[dict[str, Json]] | None = None
        last: Mapping[str, Json] | None = None
        for found in self._extractor.pages(response):
            if records is not None:
                yield records
            raw += found.raw if isinstance(found, Counted) else len(found)
            records = self._select(found, names) if found else found
            kept += len(records)
            last = records[-1] if records else last
        following = None
        if self._pages is not None:
            body = self._body(response) if self._pages.reads_body else {}
            following = self._pages.next(Turned(response, body, raw, kept, last, token, names), self._pages.size())
        if self._incremental is not None and self._incremental.data_feed and records:
            wants, window = self._incremental.wants, slice.window
            following = following if wants(records[-1], window) else None
            records = [record for record in records if wants(record, window)]
        yield Page(records or (), None if following is None else {_TOKEN: following})

    def _ask(self, slice: Slice, token: Json, names: dict[str, Json], *, saved: bool) -> Response:
        draft = self._requester.draft(names)
        if self._pages is not None:
            self._pages.ask(draft, token, self._pages.size())
        if not (self._only_first and token is not None):
            if self.router is not None:
                self.router.ask(draft, slice)
            if self._incremental is not None:
                self._incremental.ask(draft, slice)
        try:
            return self._requester.client.send(draft.request())
        except (BadRequest, NotFound) as refused:
            if saved:
                raise StaleToken(f"the page token saved by an earlier read is refused: {refused}") from refused
            raise

    def _body(self, response: Response) -> Json:
        if not self._json:
            return {}
        if self._copies:
            return orjson.loads(response.body)
        try:
            return response.json()
        except DecodeError:
            return {}
