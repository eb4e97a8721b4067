"""PagedStream: a full refresh that resumes by itself; and the loop over pages that all readers share."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TypeAlias

from cdk.base.errors import FatalError, PaginationLoop
from cdk.base.process.connector_line import defined_at
from cdk.base.records.raw_json_lines import json_lines
from cdk.base.values import NotJson, Record, copied
from cdk.state.position import Checkpoint, Paging, Start, Trail
from cdk.state.slice import Slice
from cdk.streams.page import Item, Page, PageSource, Token
from cdk.streams.state_mixin import SliceContext, StateMixin

PageParts: TypeAlias = Iterable[Page | Sequence[Record]]
"""A page as it is read: lists of records that are handed on at once, then the rest, with the token of the next page."""

_SHOWN = 120

_SAME = 3
"""As many pages of one record in a row that are the same to the byte are no accident."""

_FIRST = Trail.begin(None)
"""The trail of each slice that begins at its first page."""

_TAIL = 100
"""Records of a page, from its end, that the next one is compared with; each is copied for it."""

_LARGE = 2**20
"""Bytes from which of a page's body only a hash is kept."""


def read_pages(slice: Slice, read_page: Callable[[Slice, Token | None], PageParts]) -> Iterator[Record | Page]:
    """The pages of a slice, from the token where an earlier attempt stopped; the last has no `next`.

    A page that is the one before, again, and says that nothing follows, is the end, without records.

    Raises PaginationLoop: a page names one as the next that has been read; behind that page, for it may be a slip of
    the source, and before it where an earlier attempt has noticed a circle; or a page is the one before, again, and
    does not say that nothing follows. Raises FatalError: a token is no JSON.
    """
    token: Token | None = slice.start.cursor
    # Most slices have one page, which nothing is compared with.
    checks = None if token is None else _Checks(slice)
    while True:
        following: Token | None = None
        in_parts = False
        for part in read_page(slice, token):
            match part:
                case Page(next=None) if checks is None:
                    yield part._replace(source=None)
                case Page():
                    checks = checks or _Checks(slice)
                    page = checks.checked(part, token, in_parts=in_parts)
                    following = page.next
                    yield page
                case _:
                    in_parts = True
                    yield from part
        if following is None:
            return
        if checks is not None and checks.circle_error is not None:
            raise checks.circle_error
        token = following


class _Checks:
    """What the pages of a slice are compared with: those before them, and what the source says of all."""

    def __init__(self, slice: Slice) -> None:
        self._circle, self._repeats = _Circle(slice.start.cursor, slice.start.trail), _Repeats(slice)
        self._count, self._overlap = _Count(slice), _Overlap()

    @property
    def circle_error(self) -> PaginationLoop | None:
        """The error to end with: the last page has closed a circle, the first one."""
        return self._circle.error

    def checked(self, page: Page, token: Token | None, *, in_parts: bool) -> Page:
        """A page, that of `token`, with what is found of it. in_parts: records of it were handed on already.

        Raises as `read_pages`, but for a circle that is closed for the first time.
        """
        source, count, following, repeated = page.source, self._count, page.next, 0
        # Records that were handed on before their page cannot be taken back.
        says_end = (lambda _: False) if in_parts else count.says_end
        ended = source is not None and self._repeats.is_last_again(source, token, says_end)
        if source is not None and not ended:
            count.add(source, last=following is None)
            repeated = 0 if in_parts else self._overlap.count(page.records, source)
        if ended or following is None:
            records, moved = () if ended else page.records, count.moved()
            warning = page.warning or count.unread() or moved
            checked = page._replace(records=records, next=None, warning=warning, moved=bool(moved))
        else:
            end = _digest(source.body) if source is not None and count.says_end(source) else ""
            trail = self._circle.trail_after(following, last=token)
            checked = page._replace(trail=trail, total=count.total, end=end)
        return checked._replace(source=None, repeated=repeated)


class _Circle:
    """Notices page tokens that go in a circle, also over many attempts of a few pages each.

    token: where an earlier attempt stopped, None for the first page. saved: what it left.
    """

    def __init__(self, token: Token | None, saved: Trail | None) -> None:
        # A state that is never resumed need not remember anything: who reads on notices a circle by itself.
        self._resumed = token is not None
        self._trail = saved or (_FIRST if token is None else Trail.begin(token))
        self.error: PaginationLoop | None = None

    def trail_after(self, token: Token, *, last: Token | None) -> Trail | None:
        """What the state is to remember with `token`, the next one. last: that of the page that names it.

        Raises PaginationLoop: it was read before, and an earlier attempt has noticed a circle. FatalError: a state
        cannot hold it.
        """
        try:
            self._trail = self._trail.after(token)
        except NotJson:
            raise FatalError(
                f"the next of a page is {repr(token)[:_SHOWN]}, which JSON cannot hold; expected an object of texts, "
                "numbers and lists, for it is part of the state"
            ) from None
        if not self._trail.closed_at(token) and token != last:
            return self._trail if self._resumed else None
        text = f"the page of {token!r} is named as the next one again; nothing would be new. Check where the paginator "
        if self._trail.noticed:
            raise PaginationLoop(
                f"{text}finds it and how it is sent; then reset the stream's state, which remembers the circle"
            )
        self.error = PaginationLoop(
            f"{text}finds it and how it is sent. The next attempt goes on with that page, and ends for good where it "
            "comes back to it"
        )
        self._trail = Trail.begin(token, noticed=True)
        return self._trail


class _Repeats:
    """Notices a page that comes again under another token: what lies behind it would be lost, and it would be twice.

    Some APIs give their last page again behind it, which says itself that nothing follows: nothing is lost then. A read
    that is resumed behind such a page knows it by its digest.
    Two pages of several records that are the same to the byte are one page, also where records have no key: the API, or
    a cache before it, ignores what asks for the next one. Pages of one record, such as a status, may be equal by
    chance, so these are when they are _SAME in a row.
    """

    def __init__(self, slice: Slice) -> None:
        start = slice.start
        self._end = start.listing.end if isinstance(start, Checkpoint) else ""
        self._last: bytes | int | None = None
        self._times = 1

    def is_last_again(self, source: PageSource, token: Token | None, says_end: Callable[[PageSource], bool]) -> bool:
        """Whether a page, that of `token`, is the last one, again.

        Raises PaginationLoop: it is the one before, again, and does not say that nothing follows.
        """
        if not source.records:
            return False
        body, end, self._end = source.body, self._end, ""
        if end and _digest(body) == end:
            return True
        mark = body if len(body) < _LARGE else hash(body)
        self._times = self._times + 1 if mark == self._last else 1
        self._last = mark
        if self._times > 1 and says_end(source):
            return True
        if self._times >= (_SAME if source.records == 1 else 2):
            raise PaginationLoop(
                f"{self._times} pages in a row are the same, the last for {token!r}, and nothing in it says that it is "
                "the end: the API ignores what asks for the next page; check the paginator, and how the token is sent"
            )
        return False


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=10).hexdigest()


class _Overlap:
    """Notices a page that begins with the last records of the one before, which is what pages of a list do that grows.

    Where more records come than a page has, or than _TAIL, the next one begins with others: that is not noticed.
    """

    def __init__(self) -> None:
        self._last: Sequence[object] | bytes = ()

    def count(self, records: Sequence[Record], source: PageSource) -> int:
        """How many records of the page before a page begins with; 0 where it was not asked for by its position."""
        last, self._last = self._last, ()
        if source.total is None or not records or len(source.body) >= _LARGE:
            return 0
        text = None if (lines := json_lines(records)) is None else lines.lines
        # Who gets the records may change them, and empty the list. What is no record is refused elsewhere.
        self._last = [dict(r) if type(r) is dict else r for r in records[-_TAIL:]] if text is None else text
        if isinstance(last, bytes) and text is not None:
            # Most pages have nothing of the one before, and to look for one line is all that they cost.
            end = text.find(b"\n")
            if (text if end < 0 else text[:end]) not in last:
                return 0
            return _overlap(last.split(b"\n"), text.split(b"\n"))
        return 0 if isinstance(last, bytes) or text is not None else _overlap(last, records[:_TAIL])


def _overlap(last: Sequence[object], records: Sequence[object]) -> int:
    """How many of the last ones the others begin with; none where a page is one record, which may come by chance."""
    if len(last) == 1:
        return 0
    sizes = (len(last) - begin for begin, record in enumerate(last) if record == records[0])
    return next((size for size in sizes if last[-size:] == records[:size]), 0)


class _Count:
    """Counts the records of a slice that is read in several pages, and compares them with what the source counts.

    Of an only page that is a doubt, see `Page`. Of a slice that is resumed not all pages are known, and what a source
    says of a window may be the count of all.

    total: what the source counted when the slice was begun, perhaps by an earlier attempt.
    """

    def __init__(self, slice: Slice) -> None:
        start = slice.start
        self._whole = start.cursor is None and slice.window is None
        self._pages = self._records = 0
        self._last: PageSource | None = None
        self.total = start.listing.total if isinstance(start, Checkpoint) else 0

    def add(self, source: PageSource, *, last: bool) -> None:
        """Count a page. last: it names no next one."""
        self._pages, self._records, self._last = self._pages + 1, self._records + source.records, source
        # Of an only page nobody needs to know.
        if not (last or self.total) and self._pages == 1 and source.total is not None:
            total = source.total()
            self.total = total if total > source.records else 0

    def says_end(self, source: PageSource) -> bool:
        """Whether a page says that nothing follows those that were counted."""
        known = self._whole and self._records
        return source.says_end is not None and source.says_end(self._records, self._pages if known else 0)

    def moved(self) -> str:
        """How many records have left since the slice was begun, whose pages they were counted in; empty for none."""
        if not self.total or self._last is None or self._last.total is None:
            return ""
        total = self._last.total()
        if not 0 < total < self.total:
            return ""
        return (
            f"found {total:,} records in all on the last page, expected the {self.total:,} of the first: records left "
            "the source while its pages were read, so that as many others may have moved up to a page that was read "
            "before, and are missing. Read it again when it is quiet, or by tokens that name records instead of places"
        )

    def unread(self) -> str:
        """What the last page says of more records than all pages had; empty for nothing."""
        unread = None if self._last is None else self._last.unread
        if not self._whole or self._pages < 2 or unread is None:  # noqa: PLR2004 - one is the only page
            return ""
        return unread(self._records, self._pages)


def listed(records: object, what: str, method: object) -> Sequence[Record]:
    """The records of a page, whatever an author's code gave them in, such as a generator.

    what: begins the FatalError for what has no records one by one, such as None where a `return` was forgotten.
    method: the author's, which gave it.
    """
    match records:
        case Sequence() if not isinstance(records, str | bytes):
            return records
        case Iterable() if not isinstance(records, Mapping | str | bytes):
            # Its author may fill the same dict again for the next one.
            return [copied(record) for record in records]
        case _:
            raise FatalError(f"{what} a {type(records).__name__}, expected a list{defined_at(method)}")


class PagedStream(StateMixin):
    """A stream read page by page; an interrupted read resumes at its page. Write `read_page`."""

    @abstractmethod
    def read_page(self, slice: Slice, token: Token | None) -> Page:
        """Read one page. `token` is the `next` of the page before, None for the first page."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        if not self.advanced_by_hand:
            return read_pages(slice, self._checked_page)
        # The author sees the state that the pages were begun with, all the while.
        match slice.start:
            case Checkpoint(trail=trail, listing=listing, paging=Paging(token)):
                paged = replace(slice, start=Checkpoint(token, trail=trail, listing=listing))
            case _:
                paged = replace(slice, start=Start())
        return read_pages(paged, lambda _, token: self._checked_page(slice, token))

    @property
    def stops_at_pages(self) -> bool:
        return self.supports_checkpointing

    def _with_state(self, item: Item, context: SliceContext) -> Iterator[Item]:
        # What `read_page` sets while it makes a page is true once that page has been yielded; of pages that are asked
        # for with the state that was there at first, once all have.
        if not isinstance(item, Page):
            yield from super()._with_state(item, context)
        elif self.advanced_by_hand:
            yield item._replace(state={} if context.pending is None else context.pending.cursor)
        else:
            yield item
            yield from context.pop_pending()

    def _checked_page(self, slice: Slice, token: Token | None) -> PageParts:
        """The page. Raises FatalError for what a page cannot be; authors write it without types."""
        page: object = self.read_page(slice, copied(token))
        if not isinstance(page, Page):
            at = defined_at(self.read_page)
            raise FatalError(f"read_page returned a {type(page).__name__}, expected Page(records, next){at}")
        page = page._replace(records=listed(page.records, "the records of a page are", self.read_page))
        following: object = page.next
        if following is not None and (not isinstance(following, Mapping) or not following):
            raise FatalError(
                f"the next of a page is {page.next!r}, expected an object such as {{'page': 2}}, or None at the end"
                f"{defined_at(self.read_page)}"
            )
        return (page,)
