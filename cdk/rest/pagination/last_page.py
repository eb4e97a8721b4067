"""Checks whether a page that was taken for the last one is: by what its response says, and by requesting the next page.

The first check is never certain, because sources omit the field that names the next page from the last one. So it only
yields a doubt (`Page.doubt`), which any other page of the stream dispels. The second check is certain but costs a
request, so it is only made for authors: in `preview`, `prove` and `ConnectorSuite`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar

from cdk.base.errors import FatalError
from cdk.base.run import setting
from cdk.rest.http.messages import Response
from cdk.rest.pagination.page_signs import unread_total
from cdk.rest.tracing import explain_next

_REMEDY = (
    "Missing records are read by the next read from the start: by every sync of a stream that is read in full, and "
    "after `spark-cdk state reset` of one with a cursor"
)


class DoubtsEnd(ABC):
    """A paginator that can say why a page without a next one may not be the last.

    deciding_paths: the values that decide whether there is a next page, and which: their paths, the first name of which
    is `response` for the body, or `headers`.
    """

    deciding_paths: Sequence[tuple[str, ...]] = ()

    @abstractmethod
    def doubt(self, response: Response) -> str:
        """Return why the page may not be the last, as in `no 'next' in the body`; empty if nothing suggests that."""


def doubtful_page_warning(response: Response, why: str) -> str:
    """Return the warning that the page of `response`, the first of its slice, may not be the only one."""
    return (
        f"{response.request} was treated as the only page of its slice, which is doubtful: there is {why}; check the "
        f"paginator, unless there is only one page, or a total counts records that were not requested. {_REMEDY}"
    )


def unread_rows_warning(response: Response, records: int, pages: int) -> str:
    """Return a warning if the last page reports more than the `records` that were read in `pages`; else empty."""
    why = unread_total(response, records, pages)
    return why and (
        f"{response.request} was treated as the last page of its slice, which is doubtful: there is {why}; check where "
        "the paginator starts, and the page size, unless that total counts records that were not requested, such as "
        f"those that a filter excludes. {_REMEDY}"
    )


class RecordsAfterEnd(FatalError):
    """The page after the supposedly last one has records."""


_CHECKED: ContextVar[dict[int, int] | None] = ContextVar("checked_after_end", default=None)
"""By the id of a reader, the most records of a last page after which one was requested; None: none is requested."""


def checking_pages_after_end() -> AbstractContextManager[dict[int, int]]:
    """Let `check_page_after_end` send requests inside the block; outside, it does nothing."""
    return setting(_CHECKED, {})


def check_page_after_end(reader: object, last: Response, count: int, fetch: Callable[[], tuple[Response, int]]) -> None:
    """Request the page after `last`, which has `count` records, and raise RecordsAfterEnd if it has records.

    fetch: sends the request for that page; returns the response and how many records it has. Called only after the
    fullest last pages of a reader: if the source returns fewer records than requested, these are as full as its pages
    get. If the source rejects the request, or returns the last page again, there are no more records.
    """
    checked = _CHECKED.get()
    if checked is None or last.is_stream or count <= checked.get(id(reader), 0):
        return
    checked[id(reader)] = count
    try:
        response, more = fetch()
    except Exception:  # noqa: BLE001 - for a missing page a source may return anything, on which `parse` may fail
        return
    if response.ok and more and response.body != last.body:
        raise RecordsAfterEnd(
            f"{response.request} returned {more} records, although the page before it, with {count}, was treated as "
            f"the last one. Most likely the source returns at most {count} records per page: set the page size to "
            "that, or declare where the response says that there is more; and do not drop records in `parse` if pages "
            "are counted"
        )
    behind = "is the same" if response.ok and more else "has none"
    explain_next("the page has %s records, and the one after it %s", count, behind)
