"""Pages: as a stream yields them, with other items, and as the stages of a read pass them on."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from cdk.base.logs import FirstWarning, warn
from cdk.base.values import Record, Stored
from cdk.state.position import Checkpoint, Edge, Position, Trail

Token: TypeAlias = Mapping[str, Stored]
"""Identifies a page: a small JSON object. It becomes part of the saved state, so keep secrets and large values out."""


class Page(Struct, frozen=True):
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


class PageSource(Struct, frozen=True):
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


class ReadPage(Struct, frozen=True):
    """What the stages of a read pass on: records, and the position from which a restart continues after them.

    position: None while the stream has not yielded a position; a later page then covers these records.
    edge: the greatest cursor value of the slice so far, including these records, if the stream has a cursor.
    skipped: how many records were left out because an earlier run had them (`cdk.engine.boundary_dedup`), they belong
        to another window, or the previous page had them (`Page.repeated`).
    restarted: the source refused the saved token, so from here on the slice is read again from its start.
    warning: a warning for users about these records; `PageWarnings` logs the first one of each stream.
    explain_doubt: computes `doubt`. followed: whether the page names a next one.
    source: the origin of the records, if rows are traced. moved, runs_job: as in `Page`.
    """

    records: Sequence[Record]
    position: Position | None = None
    edge: Edge | None = None
    skipped: int = 0
    restarted: bool = False
    warning: str = ""
    explain_doubt: Callable[[], str] | None = None
    followed: bool = False
    source: Record | None = None
    moved: bool = False
    runs_job: bool = False

    @property
    def doubt(self) -> str:
        """Why this may not be the last page, computed on access; empty without a reason."""
        return "" if self.explain_doubt is None else self.explain_doubt()


class Warned(Protocol):
    """A page, or the part of a slice that a task has read; see `ReadPage`."""

    @property
    def warning(self) -> str: ...
    @property
    def doubt(self) -> str: ...
    @property
    def followed(self) -> bool: ...


class PageWarnings:
    """Logs the first warning of a read immediately, and the first doubt at its end.

    resumed: whether the read starts from a state.

    A doubt is a reason why a single page may not be the last one. It is void once another page names a next one, since
    many sources omit the field that names it from the last page. For the same reason, reads that start from a state
    raise no doubts: most of them return a single page, and the first read has already raised its doubt.
    """

    def __init__(self, *, resumed: bool) -> None:
        self._warning, self._doubt, self._followed = FirstWarning(), "", resumed

    def add(self, read: Warned) -> None:
        """Process the warning and the doubt of a page."""
        self._warning(read.warning)
        self._followed = self._followed or read.followed
        # Computing the doubt of each single page of thousands of slices costs more than reading it.
        self._doubt = "" if self._followed else self._doubt or read.doubt

    def end(self) -> None:
        """Log the doubt that remains once everything has been read."""
        warn(self._doubt)
