"""Whether the page that was taken for the last one is: what a response says against it, and what comes after it.

The first is never certain: sources leave the field that names the next page out of a last one. So it is a doubt
(`Page.doubt`), which any other page of the stream dispels. The second is certain and costs a request, so it is sent
where an author looks on: in `preview`, `prove` and `ConnectorSuite`.
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
    "Where records are missing, they come with the next read from the start: with each sync of a stream that is read "
    "whole, and after `spark-cdk state reset` of one with a cursor"
)


class DoubtsEnd(ABC):
    """A paginator that can say why a page which names no next one may not be the last.

    looks_at: where a page says whether there is a next one, and which: paths below `response` and `headers`.
    """

    looks_at: Sequence[tuple[str, ...]] = ()

    @abstractmethod
    def doubt(self, response: Response) -> str:
        """What speaks against it, as in `there is no 'next' in the body`; empty where nothing does."""


def doubtful(response: Response, why: str) -> str:
    """The doubt that the page of `response`, the first of its slice, is the only one."""
    return (
        f"{response.request} was taken for the only page of its slice: there is {why}; check the paginator, unless one "
        f"page is all there is, or it counts what the request does not ask for. {_REMEDY}"
    )


def unread_rows(response: Response, records: int, pages: int) -> str:
    """What the last page of a slice says of more than the `records` that were read in `pages`; empty for nothing."""
    why = unread_total(response, records, pages)
    return why and (
        f"{response.request} was taken for the last page of its slice: there is {why}; check where the paginator "
        "begins, and the page size, unless it counts records that the request does not ask for, such as those that a "
        f"filter leaves out. {_REMEDY}"
    )


class RowsBehindEnd(FatalError):
    """The page after the one that was taken for the last brings records."""


_LOOKED: ContextVar[dict[int, int] | None] = ContextVar("looked_behind", default=None)
"""Records of the fullest last page that was looked behind, by its reader; None where no paginator looks."""


def looking_behind() -> AbstractContextManager[dict[int, int]]:
    """Have paginators that count ask, in a block, for the page after the one that they take for the last."""
    return setting(_LOOKED, {})


def look_behind(reader: object, last: Response, count: int, fetch: Callable[[], tuple[Response, int]]) -> None:
    """Raise RowsBehindEnd: behind a last page with `count` records there are more, so that all of them would be lost.

    fetch: sends the request for the page behind it; the response, and how many records it has. Asked for only behind
    the fullest last pages of a reader: where the source gives less than was asked, those are as full as it makes them.
    A source that refuses the page, or gives the last one again, has no more.
    """
    looked = _LOOKED.get()
    if looked is None or last.is_stream or count <= looked.get(id(reader), 0):
        return
    looked[id(reader)] = count
    try:
        response, more = fetch()
    except Exception:  # noqa: BLE001 - of a page that is not there a source may say anything, which `parse` may not read
        return
    if response.ok and more and response.body != last.body:
        raise RowsBehindEnd(
            f"{response.request} brings {more} records, though the page before it, with {count}, was taken for the "
            f"last one. Most likely the source gives {count} records at most: set the page size to that, or say "
            "where the response tells that there is more; and have `parse` drop no records where pages are counted"
        )
    behind = "is the same" if response.ok and more else "has none"
    explain_next("the page has %s records, and the one behind it %s", count, behind)
