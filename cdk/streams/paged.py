"""PagedStream, a full refresh that resumes on its own, and the page loop that all readers share."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

from msgspec.structs import replace

from cdk.base.errors import FatalError, PaginationLoop
from cdk.base.process.connector_line import defined_at
from cdk.base.records.exact_json import exact_json
from cdk.base.records.raw_json_lines import json_lines, record_texts
from cdk.base.values import NotJson, Record, copied
from cdk.state.position import Checkpoint, Paging, Start, Trail
from cdk.state.slice import Slice
from cdk.streams.page import Item, Page, PageSource, Token
from cdk.streams.state_mixin import SliceContext, StateMixin

PageParts: TypeAlias = Iterable[Page | Sequence[Record]]
"""A page while it is read: lists of records to pass on immediately, then the rest with the token of the next page."""

_SHOWN = 120

_SAME = 3
"""So many pages of one record in a row that are identical to the byte are no coincidence."""

_FIRST = Trail.begin(None)
"""The trail of every slice that starts at its first page."""

_TAIL = 100
"""Records at the end of a page that the next page is compared with; each of them is copied."""

_EMPTY = 100
"""So many pages without a record in a row, each with a next one, may have no end; a few are usual behind a filter."""

_LARGE = 2**20
"""Bodies of at least so many bytes are remembered by a hash only."""


def read_pages(slice: Slice, read_page: Callable[[Slice, Token | None], PageParts]) -> Iterator[Record | Page]:
    """Yield the pages of a slice, from the token where an earlier attempt stopped; the last one has no `next`.

    A page that repeats the previous one and says that nothing follows is taken for the end, without its records.

    Raises PaginationLoop: a page names a next one that was already read (raised after that page, since it may be a
    glitch of the source; or before it, if an earlier attempt noticed the circle), or a page repeats the previous one
    and does not say that nothing follows. Raises FatalError: a token is not JSON.
    """
    token: Token | None = slice.start.cursor
    # Most slices have a single page, with nothing to compare it to.
    checks = None if token is None else _Checks(slice)
    while True:
        following: Token | None = None
        in_parts = False
        for part in read_page(slice, token):
            match part:
                case Page(next=None) if checks is None:
                    yield replace(part, source=None)
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
    """Compares the pages of a slice with the pages before them and with the totals that the source reports."""

    def __init__(self, slice: Slice) -> None:
        self._circle, self._repeats = _Circle(slice.start.cursor, slice.start.trail), _Repeats(slice)
        self._count, self._overlap, self._empty = _Count(slice), _Overlap(), 0

    @property
    def circle_error(self) -> PaginationLoop | None:
        """The error to end the slice with, once a page has closed a circle for the first time."""
        return self._circle.error

    def checked(self, page: Page, token: Token | None, *, in_parts: bool) -> Page:
        """The page of `token`, with its warnings and trail. in_parts: some of its records were already passed on.

        Raises like `read_pages`, except for a circle that closes for the first time.
        """
        source, count, following, repeated = page.source, self._count, page.next, 0
        # Records that were passed on ahead of their page cannot be taken back.
        says_end = (lambda _: False) if in_parts else count.says_end
        ended = source is not None and self._repeats.is_last_again(source, token, says_end)
        if source is not None and not ended:
            count.add(source, last=following is None)
            repeated = 0 if in_parts else self._overlap.count(page.records, source)
        if ended or following is None:
            records, moved = () if ended else page.records, count.moved()
            warning = page.warning or count.unread() or moved
            checked = replace(page, records=records, next=None, warning=warning, moved=bool(moved))
        else:
            end = _digest(source.body) if source is not None and count.says_end(source) else ""
            trail = self._circle.trail_after(following, last=token)
            warning = page.warning or self._endless(source, following)
            checked = replace(page, trail=trail, total=count.total, end=end, warning=warning)
        return replace(checked, source=None, repeated=repeated)

    def _endless(self, source: PageSource | None, following: Token) -> str:
        """The warning, once, about pages without records, each of which names a next one with a new token."""
        self._empty = 0 if source is None or source.records else self._empty + 1
        if self._empty != _EMPTY:
            return ""
        return (
            f"{_EMPTY} pages in a row have no records, and each names a next one, now {following!r}; if the read does "
            "not end, correct what tells the paginator that a page is the last, in a manifest the `stop_condition`"
        )


class _Circle:
    """Detects page tokens that go in a circle, even across many attempts of a few pages each.

    token: where an earlier attempt stopped, None for the first page. saved: the trail in its state.
    """

    def __init__(self, token: Token | None, saved: Trail | None) -> None:
        # Only resumed reads save a trail: an uninterrupted read detects a circle in memory.
        self._resumed = token is not None
        self._trail = saved or (_FIRST if token is None else Trail.begin(token))
        self.error: PaginationLoop | None = None

    def trail_after(self, token: Token, *, last: Token | None) -> Trail | None:
        """The trail to save with `token`, the next one. last: the token of the page that names it.

        Raises PaginationLoop: `token` was read before, and an earlier attempt noticed a circle. Raises FatalError: a
        state cannot hold the token.
        """
        try:
            self._trail = self._trail.after(token)
        except NotJson:
            raise FatalError(
                f"the next of a page is {repr(token)[:_SHOWN]}, which JSON cannot hold; expected an object of "
                "strings, numbers and lists, because it becomes part of the state"
            ) from None
        if not self._trail.closed_at(token) and token != last:
            return self._trail if self._resumed else None
        text = (
            f"the page of {token!r} is returned as the next page again, so the read would never end. Check where "
            "the paginator "
        )
        if self._trail.noticed:
            words = f"{text}finds it and how it is sent; then reset the stream's state, which remembers the loop"
            raise PaginationLoop(words)
        self.error = PaginationLoop(
            f"{text}finds it and how it is sent. The next attempt continues with that page, and fails for good if it "
            "comes back to it"
        )
        self._trail = Trail.begin(token, noticed=True)
        return self._trail


class _Repeats:
    """Detects a page that the source sends again for another token: later pages would be lost, and this one duplicated.

    Some APIs repeat their last page, which itself says that nothing follows: then nothing is lost. A read that resumes
    behind such a page recognizes it by its digest.
    Two pages of several records that are identical to the byte count as the same page, even without keys: the API, or a
    cache in front of it, ignores the parameter for the next page. Pages of a single record, such as a status, may be
    equal by chance, so only _SAME of them in a row count.
    """

    def __init__(self, slice: Slice) -> None:
        start = slice.start
        self._end = start.listing.end if isinstance(start, Checkpoint) else ""
        self._last: bytes | int | None = None
        self._times = 1

    def is_last_again(self, source: PageSource, token: Token | None, says_end: Callable[[PageSource], bool]) -> bool:
        """Whether the page of `token` repeats the last page.

        Raises PaginationLoop: it repeats the previous page, which does not say that nothing follows.
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
                f"{self._times} pages in a row are the same, the last for {token!r}, and nothing in it says that it "
                "is the last: the API ignores the parameter for the next page; check the paginator, and how the "
                "token is sent"
            )
        return False


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=10).hexdigest()


class _Overlap:
    """Detects a page that starts with the last records of the previous one, as happens when a list grows at its front.

    Not detected: more new records than a page holds, or than _TAIL, so that the next page starts with others.
    """

    def __init__(self) -> None:
        self._last: Sequence[object] | bytes = ()

    def count(self, records: Sequence[Record], source: PageSource) -> int:
        """How many records at the start of a page repeat the previous one; 0 for pages not requested by position."""
        last, self._last = self._last, ()
        if source.total is None or not records or len(source.body) >= _LARGE:
            return 0
        text = None if (lines := json_lines(records)) is None else lines.text
        # Copied: whoever receives the records may change them and empty the list. Non-records are refused elsewhere.
        self._last = [dict(r) if type(r) is dict else r for r in records[-_TAIL:]] if text is None else text
        if not last:
            return 0
        if isinstance(last, bytes) and text is not None:
            # Most pages repeat nothing, and cost no more than a search for how their first record begins.
            begin = text.find(b"{")
            if text[begin : text.find(b"}") + 1] not in last:
                return 0
            return _overlap(record_texts(last), record_texts(text))
        # One of the two may have been decoded, such as a page of one record, which may be an error in place of records.
        earlier = _decoded(last)[-_TAIL:] if isinstance(last, bytes) else last
        return _overlap(earlier, (records if text is None else _decoded(text))[:_TAIL])


def _decoded(text: bytes) -> Sequence[Record]:
    return [exact_json(record) for record in record_texts(text)]


def _overlap(last: Sequence[object], records: Sequence[object]) -> int:
    """How many of the last records the next ones start with; 0 for a page of one record, which may repeat by chance."""
    if len(last) == 1:
        return 0
    sizes = (len(last) - begin for begin, record in enumerate(last) if record == records[0])
    return next((size for size in sizes if last[-size:] == records[:size]), 0)


class _Count:
    """Counts the records of a slice with several pages, and compares the count with the total that the source reports.

    Single pages are compared by `Page.doubt`. Resumed slices and windows are not compared: their earlier pages are
    unknown, and the reported total may be that of all windows.

    total: what the source reported when the slice started, perhaps in an earlier attempt.
    """

    def __init__(self, slice: Slice) -> None:
        start = slice.start
        self._counts_all = start.cursor is None and slice.window is None
        self._pages = self._records = 0
        self._last: PageSource | None = None
        self.total = start.listing.total if isinstance(start, Checkpoint) else 0

    def add(self, source: PageSource, *, last: bool) -> None:
        """Count a page. last: whether it names no next one."""
        self._pages, self._records, self._last = self._pages + 1, self._records + source.records, source
        # The total of a single page is not needed.
        if not (last or self.total) and self._pages == 1 and source.total is not None:
            total = source.total()
            self.total = total if total > source.records else 0

    def says_end(self, source: PageSource) -> bool:
        """Whether a page says that nothing follows the records counted so far."""
        known = self._counts_all and self._records
        return source.says_end is not None and source.says_end(self._records, self._pages if known else 0)

    def moved(self) -> str:
        """A warning if the reported total shrank since the slice started, which shifts later pages; empty if not."""
        if not self.total or self._last is None or self._last.total is None:
            return ""
        total = self._last.total()
        if not 0 < total < self.total:
            return ""
        return (
            f"found a total of {total:,} records on the last page, expected the {self.total:,} of the first: records "
            "were removed from the source while its pages were read, so as many others may have moved to a page that "
            "was read before, and are missing. Read it again when the source does not change, or page by tokens that "
            "name records instead of offsets"
        )

    def unread(self) -> str:
        """A warning if the last page reports more records than all pages had; empty if not."""
        unread = None if self._last is None else self._last.unread
        if not self._counts_all or self._pages < 2 or unread is None:  # noqa: PLR2004 - one is the only page
            return ""
        return unread(self._records, self._pages)


def listed(records: object, what: str, method: object) -> Sequence[Record]:
    """The records of a page as a sequence, even if the author's code returned them as a generator.

    Raises FatalError for anything without records, such as None after a forgotten `return`. what: the first words of
    that error. method: the author's method that returned it.
    """
    match records:
        case Sequence() if not isinstance(records, str | bytes):
            return records
        case Iterable() if not isinstance(records, Mapping | str | bytes):
            # Copied: a generator may refill the same dict for the next record.
            return [copied(record) for record in records]
        case _:
            raise FatalError(f"{what} a {type(records).__name__}, expected a list{defined_at(method)}")


class PagedStream(StateMixin):
    """A stream read page by page; an interrupted read resumes at its page. Write `read_page`."""

    @abstractmethod
    def read_page(self, slice: Slice, token: Token | None) -> Page:
        """Read one page. `token` is the `next` of the previous page, None for the first page."""

    def read_records(self, slice: Slice) -> Iterator[Item]:
        if not self.advanced_by_hand:
            return read_pages(slice, self._checked_page)
        # All the while, the author sees the state that the pages started with.
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
        # A state that `read_page` sets holds once that page has been yielded; if the requests of all pages depend on
        # the initial state, once all pages have been yielded.
        if not isinstance(item, Page):
            yield from super()._with_state(item, context)
        elif self.advanced_by_hand:
            yield replace(item, state={} if context.pending is None else context.pending.cursor)
        else:
            yield item
            yield from context.pop_pending()

    def _checked_page(self, slice: Slice, token: Token | None) -> PageParts:
        """Read a page and check its types, since authors may write `read_page` without them.

        Raises FatalError: it is not a page, or its `next` is not an object.
        """
        page: object = self.read_page(slice, copied(token))
        if not isinstance(page, Page):
            at = defined_at(self.read_page)
            raise FatalError(f"read_page returned a {type(page).__name__}, expected Page(records, next){at}")
        page = replace(page, records=listed(page.records, "the records of a page are", self.read_page))
        following: object = page.next
        if following is not None and (not isinstance(following, Mapping) or not following):
            raise FatalError(
                f"the next of a page is {page.next!r}, expected an object such as {{'page': 2}}, or None at the end"
                f"{defined_at(self.read_page)}"
            )
        return (page,)
