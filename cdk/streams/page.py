"""Pages and the other items that a stream yields."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from cdk.base.values import Record, Stored
from cdk.state.position import Checkpoint, Trail

Token: TypeAlias = Mapping[str, Stored]
"""Identifies a page: a small JSON object. It becomes part of the saved state, so keep secrets and large values out."""


class Page(NamedTuple):
    """A page of records and the token of the next one."""

    records: Sequence[Record]

    next: Token | None
    """The token of the next page; None after the last one. Required, so that no author forgets the end."""

    trail: Trail | None = None
    """For the kit's own pagination; authors leave it out."""

    warning: str = ""
    """A warning for users about this page. The first one of each stream is logged, prefixed with the stream's name."""

    doubt: Callable[[], str] | None = None
    """Returns why a page without `next` may not be the last one; empty without a reason. Logged at the end of the read.

    Called when the page arrives, unless an earlier page had a `next` or already gave a reason.
    """

    source: "PageSource | None" = None
    """The response that brought the records."""

    total: int = 0
    """The total that the source reported when the slice started; 0 when it is unknown or of no use."""

    moved: bool = False
    """Records left the source while its pages were read, so later ones may have moved up to a page read before."""

    end: str = ""
    """A digest of the body, set when the body marks the last page although `next` points to another one.

    A read that resumes there recognizes the page by this digest when the source sends it again.
    """

    state: Record | None = None
    """The state that the author of a `PagedStream` has set so far, empty at first; None for streams without one."""

    runs_job: bool = False
    """A job runs at the source for the next pages, and others wait for it, so the slice must not pause here."""

    repeated: int = 0
    """How many records at the start repeat the end of the previous page, because new records shifted the list."""


class PageSource(NamedTuple):
    """The response that a page of records came in."""

    body: bytes
    """Compared with the previous body, to notice a page that the source sends again."""

    records: int
    """How many records the response had before any filter."""

    unread: Callable[[int, int], str] | None = None
    """Takes the numbers of records and pages read; returns how the response contradicts that they are all, or an empty
    text. None when pages may end early."""

    total: Callable[[], int] | None = None
    """Returns the number of records that the response reports, perhaps only its own; 0 for none. None when records that
    come and go do not shift the pages."""

    says_end: Callable[[int, int], bool] | None = None
    """Takes the numbers of records and pages read (no pages when unknown); whether the response says that none follow.

    None when pages are not requested by their position in a list.
    """


Item: TypeAlias = Record | Page | Checkpoint


def records_in(items: Iterable[Item]) -> Iterator[Record]:
    """The records among some items, whether in pages or one by one."""
    for item in items:
        match item:
            case Page(records):
                yield from records
            case Mapping():
                yield item
            case Checkpoint():
                pass
