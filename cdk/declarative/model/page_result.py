"""FetchedPage and PageResult: a page as it was fetched, and as those see it who find the next one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from cdk.base.records.raw_json_lines import json_lines
from cdk.base.values import JsonObject, JsonValue, Record
from cdk.declarative.model.context import Names
from cdk.rest import Response
from cdk.rest.pagination.last_page import unread_rows
from cdk.rest.pagination.page_signs import says_end, total_records
from cdk.streams.page import PageSource


@dataclass(slots=True)
class FetchedPage:
    """A page as it was found in a response."""

    response: Response

    raw: int = 0
    """Records in the response, whatever a filter left of them."""

    selected: int = 0

    present: int = 0
    """Records in the response that are not null."""

    lone_object: JsonObject | None = None
    """Where there is one record, and it may be an error in the place of a list: what was there; see `PageCheck`."""

    records: Sequence[Record] = ()
    """Those that were selected and are not handed on yet."""

    tail: Sequence[Record] = ()
    """The last of those that were selected, and some before it."""

    def source(self, *, ends_early: bool, by_position: bool) -> PageSource | None:
        """What its records came in; nothing of a body that is not kept.

        ends_early: the slice may have more pages. by_position: pages are asked for by their position in a list.
        """
        response = self.response
        if response.request.stream:
            return None
        unread = None if ends_early else partial(unread_rows, response)
        if not by_position:
            return PageSource(response.body, self.raw, unread)
        return PageSource(
            response.body, self.raw, unread, partial(total_records, response), partial(says_end, response)
        )


@dataclass(frozen=True, slots=True)
class PageResult:
    """A page that was read.

    raw: records in the response. selected: records after the filter; tail: the last of them, and some before it. token:
    what the page was asked with, None for the first.
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
        """The last record after the filter. Most paginators count, so it is decoded for those alone that look at it."""
        if (lines := json_lines(self.tail)) is not None:
            return lines.last()
        return self.tail[-1] if self.tail else None
