"""SimpleRetriever: reads page after page, one request each; and RecordSelector, which turns responses into records."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

from msgspec import to_builtins

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject, JsonValue, as_object, canonical
from cdk.declarative.components.requests.pagination import NoPagination
from cdk.declarative.components.streams.partition_routers import PartitionRouters, listed_routers, router_of
from cdk.declarative.components.streams.recoveries import PageSizeReduction, PaginationReset, RequestWindowSplitting
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext, Names
from cdk.declarative.model.query_properties import Properties
from cdk.declarative.model.request_plug_points import (
    AnyDecoder,
    AnyExtractor,
    AnyPaginator,
    AnyRecordFilter,
    AnyRequester,
    AnySchemaNormalization,
    PageRequests,
    Select,
    Transform,
)
from cdk.declarative.model.stream_plug_points import (
    AnyPartitionRouter,
    AnyRetriever,
    Incremental,
    SliceReader,
    StreamParts,
)
from cdk.declarative.reading.page_reader import PageReader
from cdk.declarative.reading.page_size_reduction import Reduction
from cdk.declarative.reading.recovering_reader import RecoveringReader, Reset
from cdk.declarative.reading.type_normalizer import normalizer
from cdk.rest import JsonDocument
from cdk.state.window import Window

_NOT_IN_REQUEST = (
    "authenticator", "error_handler", "use_cache", "connect_timeout_in_seconds", "read_timeout_in_seconds",
)  # fmt: skip
"""Fields of a requester that change how a request is sent, but not its content."""

_BATCH = 100
"""Records that go through all steps together: a whole page would leave the processor's cache between two steps."""


class RecordSelector(Component):
    """Turns a response into records: extracts, filters, transforms and casts them.

    Example:
        type: RecordSelector
        extractor: {type: DpathExtractor, field_path: [data]}
        record_filter: {type: RecordFilter, condition: "{{ record.active }}"}
    """

    extractor: AnyExtractor
    """Extracts the records from a response."""
    record_filter: AnyRecordFilter | None = None
    """Decides which records are emitted."""
    schema_normalization: Literal["Default", "None"] | AnySchemaNormalization | None = None
    """`Default` casts values to the types of the schema."""
    transform_before_filtering: bool | None = None
    """Whether records are transformed before they are filtered. False by default, except if the cursor filters the
    records (`is_client_side_incremental`).
    """

    def select(self, ctx: BuildContext, parts: StreamParts, *, feed: bool = False) -> Select | None:
        """Return the function from extracted records to those of the stream; None if they are the same.

        feed: records outside of the window are left to the page reader, which stops at the first of them.
        """
        steps: list[Select] = []
        if self.record_filter is not None:
            steps.append(self.record_filter.build(ctx))
        client_side = parts.incremental is not None and parts.incremental.client_side
        if client_side and parts.incremental is not None and not feed:
            steps.append(_in_window(parts.incremental))
        if parts.transforms:
            first = client_side if self.transform_before_filtering is None else self.transform_before_filtering
            steps.insert(0 if first else len(steps), _changing(*parts.transforms))
        match self.schema_normalization:
            case "Default":
                casting = cache(lambda: normalizer(parts.schema(), parts.name))
                steps.append(_changing(lambda records, _: casting()(records)))
            case AnySchemaNormalization() as custom:
                normalize = custom.build(ctx, parts.schema())
                steps.append(_changing(lambda records, _: normalize(records)))
            case "None" | None:
                pass
        return _chain(steps) if steps else None


def _chain(steps: list[Select]) -> Select:
    if len(steps) == 1:
        return steps[0]

    def select(records: list[JsonObject], names: Names) -> list[JsonObject]:
        selected: list[JsonObject] = []
        for at in range(0, len(records), _BATCH):
            some = records[at : at + _BATCH]
            for step in steps:
                some = step(some, names)
            selected += some
        return selected

    return select


def _changing(*changes: Transform) -> Select:
    """Return a function that changes all records of a page in place."""

    def select(records: list[JsonObject], names: Names) -> list[JsonObject]:
        for change in changes:
            change(records, names)
        return records

    return select


def _in_window(incremental: Incremental) -> Select:
    def select(records: list[JsonObject], names: Names) -> list[JsonObject]:
        window: Window | None = getattr(names["stream_slice"], "window", None)
        return [record for record in records if incremental.is_in_window(record, window)]

    return select


class SimpleRetriever(AnyRetriever):
    """Reads a slice page by page.

    Example:
        type: SimpleRetriever
        requester: {type: HttpRequester, url: "https://api.example.com/users"}
        record_selector:
          type: RecordSelector
          extractor: {type: DpathExtractor, field_path: []}
    """

    requester: AnyRequester
    """The request for the records."""
    record_selector: RecordSelector
    """Turns a response into records."""
    paginator: AnyPaginator | None = None
    """How pages are determined and requested."""
    decoder: AnyDecoder | None = None
    """Decodes response bodies; JSON by default."""
    partition_router: PartitionRouters = None
    ignore_stream_slicer_parameters_on_paginated_requests: bool = False
    """Whether only the request for the first page has request options of the partition and the cursor."""

    pagination_reset: PaginationReset | None = None
    """When and how pagination starts again; by default after a response with the action `RESET_PAGINATION`, at the
    first page of the slice.
    """
    page_size_reduction: PageSizeReduction | None = None
    """How smaller pages are requested when the API refuses a page."""
    request_window_splitting: RequestWindowSplitting | None = None
    """How windows of the cursor are split when the API refuses one."""

    @property
    def routers(self) -> Sequence[AnyPartitionRouter]:
        return listed_routers(self.partition_router)

    def build(self, ctx: BuildContext, parts: StreamParts) -> SliceReader:
        """Build the reader. Raises ManifestError: when its parts are incompatible."""
        decoder = JsonDocument(lenient=True) if self.decoder is None else self.decoder.build(ctx)
        routers = self.routers
        router = router_of(self.partition_router, ctx)
        requester = self.requester.build(ctx, decoder=decoder, cached=parts.cached)
        pages = (self.paginator or NoPagination()).build(ctx, decoder)
        reader = PageReader(
            ctx=ctx,
            router=router,
            requester=requester,
            extractor=self.record_selector.extractor.build(ctx, decoder),
            select=self.record_selector.select(
                ctx, parts, feed=parts.incremental is not None and parts.incremental.data_feed
            ),
            pages=pages,
            incremental=parts.incremental,
            changes_records=bool(parts.transforms) or self.record_selector.schema_normalization == "Default",
            only_first=self.ignore_stream_slicer_parameters_on_paginated_requests,
            decoder=decoder,
            properties=requester.properties,
            reduction=self._reduction(ctx, pages, requester.properties),
            lazy=len(routers) == 1 and routers[0].brings_first_page,
            key_paths=[[part] if isinstance(part, str) else part for part in parts.primary_key],
        )
        reset, split = self.pagination_reset, self.request_window_splitting
        return RecoveringReader(
            reader,
            parts.incremental,
            reset=Reset("RESET") if reset is None else reset.reset(ctx, parts.incremental),
            split=None if split is None else split.split(ctx, parts.incremental),
        )

    def requested(self, config: Mapping[str, JsonValue]) -> JsonValue:
        requester, paginator = (as_object(to_builtins(part, enc_hook=str)) for part in (self.requester, self.paginator))
        strategy = as_object(paginator.get("pagination_strategy"))
        request = [
            {name: value for name, value in requester.items() if name not in _NOT_IN_REQUEST},
            # Saved tokens that count pages include the page size.
            {**paginator, "pagination_strategy": {**strategy, "page_size": None}},
        ]
        text = canonical(request)
        # Only the config values that expressions name: the others do not affect the requests.
        return [request, {name: value for name, value in config.items() if name in text}]

    def _reduction(self, ctx: BuildContext, pages: PageRequests, properties: Properties | None) -> Reduction | None:
        if self.page_size_reduction is None:
            return None
        problem = "" if self.paginator is None else self.paginator.shrinking_problem()
        if properties is not None:
            problem = "pages that take several requests cannot become smaller"
        if problem:
            raise ManifestError(f"{ctx.where(self, 'page_size_reduction')}: {problem}")
        return self.page_size_reduction.reduction(ctx, pages)
