"""FetchedPage and PageResult: a fetched page, and its view for the paginator that finds the next one."""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from cdk.base.records.raw_json_lines import json_lines
from cdk.base.values import JsonObject, JsonValue, Record
from cdk.declarative.model.context import Names
from cdk.rest import Response
from cdk.rest.pagination.last_page import unread_rows_warning
from cdk.rest.pagination.page_signs import says_end, total_records
from cdk.streams.page import PageSource


class FetchedPage(Struct):
    """A page as extracted from a response."""

    response: Response

    raw: int = 0
    """The number of records in the response, before any filter."""

    selected: int = 0

    present: int = 0
    """The number of records in the response that are not null."""

    lone_object: JsonObject | None = None
    """The only record, if it may be an error object instead of a list of records; see `PageCheck`."""

    records: Sequence[Record] = ()
    """The selected records that were not yet handed on."""

    tail: Sequence[Record] = ()
    """The last selected record, and some of those before it."""

    def source(self, *, ends_early: bool, by_position: bool) -> PageSource | None:
        """Return where the records came from; None if the body was streamed and is not kept.

        ends_early: the slice may have more pages. by_position: pages are requested by their position in a list.
        """
        response = self.response
        if response.request.stream:
            return None
        unread = None if ends_early else partial(unread_rows_warning, response)
        if not by_position:
            return PageSource(response.body, self.raw, unread)
        return PageSource(
            response.body, self.raw, unread, partial(total_records, response), partial(says_end, response)
        )


class PageResult(Struct, frozen=True):
    """A page that was read, as paginators see it.

    raw: number of records in the response. selected: number of records after the filter. tail: the last selected
    record, and some before it. token: the page token of the request; None for the first page.
    """

    response: Response
    body: JsonValue
    raw: int
    selected: int
    tail: Sequence[Record]
    token: JsonValue
    names: Names

    @property
    def last(self) -> Record | None:
        """The last record after the filter. Decoded on access only, since most paginators just count."""
        if (lines := json_lines(self.tail)) is not None:
            return lines.last()
        return self.tail[-1] if self.tail else None
