"""PagedStream: resumable full refresh without thinking about it."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence

from cdk.base.errors import FatalError, PaginationLoop
from cdk.base.values import Json, NotJson
from cdk.state.position import Checkpoint, Trail
from cdk.state.slice import Slice
from cdk.streams.state_mixin import StateMixin
from cdk.streams.stream import Item, Page

_SHOWN = 120


def read_pages(slice: Slice, read_page: Callable[[Slice, Mapping[str, Json] | None], Page]) -> Iterator[Page]:
    """The pages of a slice, from the token where an earlier attempt stopped; the last has no `next`.

    Raises PaginationLoop: a page names one as the next that has been read. Raises FatalError: it is no page.
    """
    token = slice.start.cursor if isinstance(slice.start, Checkpoint) else None
    circle = Circle(slice, token)
    while True:
        page = read_page(slice, token)
        _check(page)
        yield page if page.next is None else page._replace(trail=_trail(circle, page.next))
        token = page.next
        if token is None:
            return
        circle.check(token)


class Circle:
    """Notices page tokens that go in a circle, also over many attempts of a few pages each.

    Raises PaginationLoop: an earlier attempt has noticed one.
    """

    def __init__(self, slice: Slice, token: Json) -> None:
        """token: where the slice begins, None for its first page."""
        saved = slice.start.trail if isinstance(slice.start, Checkpoint) else None
        # A state that is never resumed need not remember anything: who reads on notices a circle by itself.
        self._resumed = isinstance(slice.start, Checkpoint)
        self._trail = saved or Trail.begin(token)
        self.check(token)

    def trail_after(self, token: Json) -> Trail | None:
        """What the state is to remember with `token`, the next one."""
        self._trail = self._trail.after(token)
        return self._trail if self._resumed or self._trail.closed_at(token) else None

    def check(self, token: Json) -> None:
        """Raise PaginationLoop: the next token was read before."""
        if self._trail.closed_at(token):
            raise PaginationLoop(
                f"the page of {token!r} is named as the next one again; nothing would be new. Check where the "
                "paginator finds it and how it is sent; then reset the stream's state, which remembers the circle"
            )


def _trail(circle: Circle, token: Mapping[str, Json]) -> Trail | None:
    """The trail after a token. Raises FatalError: a state cannot hold the token."""
    try:
        return circle.trail_after(token)
    except NotJson:
        raise FatalError(
            f"the next of a page is {repr(token)[:_SHOWN]}, which JSON cannot hold; expected an object of texts, "
            "numbers and lists, for it is part of the state"
        ) from None


def _check(page: Page) -> None:
    """Raise FatalError for what a page cannot be; authors write it without types."""
    value: object = page
    if not isinstance(value, Page):
        raise FatalError(f"read_page gave a {type(value).__name__}, expected Page(records, next)")
    records: object = page.records
    if not isinstance(records, Sequence):
        raise FatalError(f"the records of a page are a {type(records).__name__}, expected a list")
    following: object = page.next
    if following is not None and (not isinstance(following, Mapping) or not following):
        raise FatalError(
            f"the next of a page is {page.next!r}, expected an object such as {{'page': 2}}, or None at the end"
        )


class PagedStream(StateMixin):
    """A stream read page by page; a cut read resumes at its page. Write `read_page`."""

    @abstractmethod
    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        """Read one page. `token` is the `next` of the page before, None for the first page."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        return read_pages(slice, self.read_page)
