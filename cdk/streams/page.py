"""Pages: what a stream yields, and what a page says of itself."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from cdk.base.values import Record, Stored
from cdk.state.position import Checkpoint, Trail

Token: TypeAlias = Mapping[str, Stored]
"""What asks for a page: a small JSON object. It becomes part of the saved state: no secrets, nothing large."""


class Page(NamedTuple):
    """A page of records and the token of the next one."""

    records: Sequence[Record]

    next: Token | None
    """Asks for the next page; None says that this was the last. Required, so that the end cannot be forgotten."""

    trail: Trail | None = None
    """The kit's own; authors leave it alone."""

    warning: str = ""
    """What a person should know of this page, in words; it is logged once for a stream, behind its name."""

    doubt: Callable[[], str] | None = None
    """Says why a page without `next` may not be the last one, empty for nothing; logged once all is read.

    It is called when the page has come, unless another has had a `next`, or a reason.
    """

    source: "PageSource | None" = None
    """What records came in."""

    total: int = 0
    """The records that the source counted in all when the slice was begun; 0 where that is unknown, or of no use."""

    moved: bool = False
    """The source lost records while its pages were read, so that later ones may have moved to a page read before."""

    end: str = ""
    """A digest of its body, where that says that it is the last page and `next` asks for another one all the same.

    A read that resumes there knows the page by it that comes again.
    """

    state: Record | None = None
    """What the author of a `PagedStream` has set while its pages were read; empty for nothing yet. None: keeps none."""

    runs_job: bool = False
    """A job of the source runs for what follows, and others wait until it has ended: it is read on at once."""

    repeated: int = 0
    """How many records it begins with were the last of the page before: others came to the list before them."""


class PageSource(NamedTuple):
    """The response that a page of records came in."""

    body: bytes
    """Tells whether the page is the one before, again."""

    records: int
    """How many there were, whatever a filter has left of them."""

    unread: Callable[[int, int], str] | None = None
    """What it says of more records than so many in so many pages; empty for nothing. None where pages may end early."""

    total: Callable[[], int] | None = None
    """How many records it counts, perhaps its own, 0 for none. None where pages stay when records come and go."""

    says_end: Callable[[int, int], bool] | None = None
    """Whether it says that nothing follows so many records in so many pages; no pages: what was read is unknown.

    None where pages are not asked for by their position in a list.
    """


Item: TypeAlias = Record | Page | Checkpoint


def records_in(items: Iterable[Item]) -> Iterator[Record]:
    """The records that reading gives, whether in pages or one by one."""
    for item in items:
        match item:
            case Page(records):
                yield from records
            case Mapping():
                yield item
            case Checkpoint():
                pass
