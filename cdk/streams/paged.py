"""PagedStream: resumable full refresh without thinking about it."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping

from cdk.base.values import Json
from cdk.state.position import Checkpoint
from cdk.state.slice import Slice
from cdk.streams.state_mixin import StateMixin
from cdk.streams.stream import Item, Page


def read_pages(slice: Slice, read_page: Callable[[Slice, Mapping[str, Json] | None], Page]) -> Iterator[Page]:
    """The pages of a slice, from the token where an earlier attempt stopped; the last has no `next`."""
    token = slice.start.cursor if isinstance(slice.start, Checkpoint) else None
    while True:
        page = read_page(slice, token)
        yield page
        if page.next is None:
            return
        token = page.next


class PagedStream(StateMixin):
    """A stream read page by page; a cut read resumes at its page. Write `read_page`."""

    @abstractmethod
    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:
        """Read one page. `token` is the `next` of the page before, None for the first page."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        return read_pages(slice, self.read_page)
