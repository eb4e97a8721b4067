"""Pagination: `DefaultPaginator`, `NoPagination`, and the strategies that find the next page."""

from collections.abc import Mapping
from typing import Any

from cdk.base.errors import ManifestError
from cdk.base.first_use import lazy_pattern
from cdk.base.values import JsonValue
from cdk.declarative.components.requests.request_options import AnyPageTokenOption, RequestOption, put_at
from cdk.declarative.model.context import BuildContext, Expression
from cdk.declarative.model.page_result import PageResult
from cdk.declarative.model.request_plug_points import AnyPaginationStrategy, AnyPaginator, PageRequests, PageStrategy
from cdk.rest import Decoder
from cdk.rest.errors.wait_strategies import as_seconds
from cdk.rest.http.json_path import absence
from cdk.rest.pagination.page_number import next_number
from cdk.rest.pagination.page_signs import full_page_doubt, links, unused_next_page
from cdk.rest.tracing import explain_next

_COMPARED = lazy_pattern(
    r"last_page_size\s*(?:[<>]=?+|[!=]=)(?!\s*(?:page_size|0)\b)|(?<!\w)[1-9]\d*\s*(?:[<>]=?|[!=]=)\s*last_page_size"
)


class NoPagination(AnyPaginator):
    """Reads everything from one response.

    Example:
        type: NoPagination
    """

    def build(self, ctx: BuildContext, decoder: Decoder) -> PageRequests:
        return PageRequests(_OnePage())


class _OnePage(PageStrategy):
    def next(self, page: PageResult, size: int | None) -> JsonValue:
        return None

    def doubt(self, page: PageResult, size: int | None) -> str:
        return unused_next_page(page.response) or full_page_doubt(page.response, page.raw)


class DefaultPaginator(AnyPaginator):
    """Finds pages with a strategy, and puts the page token and the page size into requests.

    Example:
        type: DefaultPaginator
        pagination_strategy: {type: PageIncrement, page_size: 100, start_from_page: 1}
        page_token_option: {type: RequestOption, inject_into: request_parameter, field_name: page}
        page_size_option: {type: RequestOption, inject_into: request_parameter, field_name: per_page}
    """

    pagination_strategy: AnyPaginationStrategy
    """Determines the next page."""
    page_token_option: AnyPageTokenOption | None = None
    """Where in requests the page token goes."""
    page_size_option: RequestOption | None = None
    """Where in requests the page size goes."""

    def build(self, ctx: BuildContext, decoder: Decoder) -> PageRequests:
        """Build the pages. Raises ManifestError: when the page size has a place in requests, but no value."""
        strategy = self.pagination_strategy.build(ctx, decoder)
        if self.page_size_option is not None and strategy.size is None:
            where = ctx.where(self, "page_size_option")
            raise ManifestError(f"{where}: there is no page size to send; set page_size in pagination_strategy")
        return PageRequests(strategy, put_at(self.page_token_option, ctx), put_at(self.page_size_option, ctx))

    def shrinking_problem(self) -> str:
        if problem := self.pagination_strategy.shrinking_problem():
            return problem
        if self.page_token_option is not None and self.page_token_option.says_size:
            return "a RequestPath already contains the page size"
        return (
            ""
            if self.page_size_option
            else "there is no page_size_option, so the page size would not be sent to the API"
        )


class PageIncrement(AnyPaginationStrategy):
    """Requests pages by number. The last page is the one with fewer records than `page_size`, or with no records.

    Example:
        type: PageIncrement
        page_size: 100
        start_from_page: 1
        inject_on_first_request: true
    """

    page_size: int | str | None = None
    """Number of records on a full page."""
    start_from_page: int = 0
    """Number of the first page."""
    inject_on_first_request: bool = False
    """Whether the first request names its page number."""

    def build(self, ctx: BuildContext, decoder: Decoder) -> PageStrategy:
        start = self.start_from_page
        return _Counting(
            _page_size(ctx, self), start if self.inject_on_first_request else None, start, by_records=False
        )

    def shrinking_problem(self) -> str:
        return "the size of numbered pages cannot change: the same number would denote other records"


class OffsetIncrement(AnyPaginationStrategy):
    """Requests pages by the offset of their first record. The last page has fewer records than `page_size`, or none.

    Example:
        type: OffsetIncrement
        page_size: 100
    """

    page_size: int | str | None = None
    """Number of records on a full page; may read `response`."""
    inject_on_first_request: bool = False
    """Whether the first request has offset 0."""

    def build(self, ctx: BuildContext, decoder: Decoder) -> PageStrategy:
        first = 0 if self.inject_on_first_request else None
        if isinstance(self.page_size, str):
            size = ctx.expression(self, "page_size")
            if not size.fixed:
                return _Counting(None, first, 0, by_records=True, size_expression=size)
        return _Counting(_page_size(ctx, self), first, 0, by_records=True)


def _page_size(ctx: BuildContext, strategy: AnyPaginationStrategy) -> int | None:
    """Return the number of records on a full page; None if it is unknown: 0 counts as none, as in Airbyte."""
    return ctx.integer(strategy, "page_size", None, least=0, empty=True) or None


class _Counting(PageStrategy):
    """Page numbers and offsets. Both count the records in the response, whatever a filter leaves of them."""

    def __init__(
        self,
        size: int | None,
        first: int | None,
        start: int,
        *,
        by_records: bool,
        size_expression: Expression | None = None,
    ) -> None:
        self.size, self._first, self._start = size, first, start
        self._by_records, self._size_expression = by_records, size_expression
        self.reads_body = size_expression is not None
        self.counts = "records" if by_records else f"pages from {start}"

    def first(self) -> JsonValue:
        return self._first

    def token_after(self, token: JsonValue, size: int | None) -> JsonValue:
        step = size if self._by_records else 1
        if type(token) is not int or step is None or self._size_expression is not None:
            return None
        return token + step

    def token_after_page(self, page: PageResult) -> JsonValue:
        return self._number(page) + (page.raw if self._by_records else 1)

    def doubt(self, page: PageResult, size: int | None) -> str:
        return unused_next_page(page.response)

    def next(self, page: PageResult, size: int | None) -> JsonValue:
        if self._size_expression is not None:
            rendered = self._size_expression.value({"response": page.body, **page.names})
            if (number := as_seconds(rendered)) is None:
                raise ManifestError(f"the page size is {rendered!r}, expected a number")
            size = int(number)
        # In a list of lists, an API may count either level: a page is full by the larger number.
        count = max(page.raw, page.selected)
        return next_number(self._number(page), page.raw if self._by_records else 1, count, size)

    def _number(self, page: PageResult) -> int:
        number = self._start if page.token is None else page.token
        if type(number) is not int:
            raise ManifestError(f"the page token is {number!r}, expected a number")
        return number


class CursorPagination(AnyPaginationStrategy):
    """Takes the token of the next page from the response.

    The last page is the one for which `cursor_value` is empty, or `stop_condition` holds.

    Example:
        type: CursorPagination
        cursor_value: "{{ response.next_page }}"
        stop_condition: "{{ not response.next_page }}"
        page_size: 100
    """

    cursor_value: str
    """The token of the next page; reads `response`, `headers`, `last_record` and `last_page_size`. An empty value ends
    the pagination, and so does 0, which some APIs return on the last page.
    """
    page_size: int | str | None = None
    """Number of records on a full page."""
    stop_condition: str | None = None
    """A condition that is true on the last page."""

    def build(self, ctx: BuildContext, decoder: Decoder) -> PageStrategy:
        stop = None if self.stop_condition is None else ctx.expression(self, "stop_condition")
        return _CursorStrategy(ctx.expression(self, "cursor_value"), stop, _page_size(ctx, self))

    def shrinking_problem(self) -> str:
        if _COMPARED.search(self.stop_condition or ""):
            return "the stop_condition compares last_page_size with a number; compare it with page_size"
        return ""


class _CursorStrategy(PageStrategy):
    """Tokens that an expression finds in the response."""

    def __init__(self, value: Expression, stop: Expression | None, size: int | None) -> None:
        self._value, self._stop, self.size = value, stop, size
        templates = [e.template for e in (value, stop) if e is not None and e.template is not None]
        read = set().union(*(template.names for template in templates))
        self.deciding_paths = [path for template in templates for path in template.paths]
        self.reads_body = "response" in read
        self._links, self._reads_last = "headers" in read, "last_record" in read
        self._reads_size = "last_page_size" in read

    def next(self, page: PageResult, size: int | None) -> JsonValue:
        names = self._names(page, size)
        if self._stop is not None and self._stop.true(names):
            explain_next("stop_condition holds")
            return None
        value = self._value.value(names)
        explain_next("cursor_value %s", "names the next page" if value else "is empty")
        return value

    def doubt(self, page: PageResult, size: int | None) -> str:
        """Return why `page` may not be the last: all fields that decided are missing, or a filter had an influence.

        The fields that decide are those of a stop_condition that holds, else those of the cursor_value. As in Airbyte,
        the decision may depend on what a filter left of the page, which may have been full.
        """
        filtered = page.selected < page.raw and page.raw >= (self.size or 0)
        if filtered and (self._reads_size or (self._reads_last and not page.selected)):
            return (
                f"a filter or an expander that leaves {page.selected} of its {page.raw} records, and "
                "`last_page_size` and `last_record` are of those: have the paginator look at `response` instead"
            )
        names = self._names(page, size)
        decided = self._stop if self._stop is not None and self._stop.true(names) else self._value
        if decided.template is None:
            return ""
        looked_at = {"response": (page.body, "the body"), "last_record": (names["last_record"], "the last record")}
        absences = []
        for name, *path in decided.template.paths:
            if path and name in looked_at:
                value, where = looked_at[name]
                absences.append(absence(value, path, where))
        return absences[0] if absences and all(absences) else ""

    def _names(self, page: PageResult, size: int | None) -> dict[str, Any]:
        return {
            **page.names,
            "response": page.body,
            "headers": header_map(page.response.headers) if self._links else {},
            "last_record": page.last if self._reads_last else None,
            "last_page_size": page.selected,
            "page_size": size,
        }


def header_map(headers: Mapping[str, str]) -> dict[str, object]:
    """Return headers as expressions see them: by any usual spelling of their names, with `link` split by relation."""
    shown = _AnyCase(headers)
    shown["link"] = links(headers.get("link", ""))
    return shown


class _AnyCase(dict[str, object]):
    """Header fields, found whatever the case of their names."""

    def __missing__(self, name: str) -> object:
        if (lower := name.lower()) == name:
            raise KeyError(name)
        return self[lower]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name: str, default: object = None) -> object:
        return super().get(name.lower(), default)
