"""read_slice: reads a slice of a stream as pages of records, each with the position after it. Runs anywhere."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from msgspec.structs import replace

from cdk.base.errors import ConnectorExit, FatalError, StaleToken, stale_page_token
from cdk.base.logs import logger
from cdk.base.process.connector_line import defined_at
from cdk.base.process.unseen_refusals import ExplainedRefusals
from cdk.base.records.raw_json_lines import field_values, json_lines
from cdk.base.values import SCALARS, Record, Stored, copied
from cdk.base.wording import nearest
from cdk.state.position import Checkpoint, Done, Edge, Listing, Paging, Position, Start
from cdk.state.slice import Slice
from cdk.state.window import Window
from cdk.state.wire import reserved_names
from cdk.streams.checkpoint.author_state import AuthorState
from cdk.streams.cursor import Cursor, Side, owned
from cdk.streams.page import Page, ReadPage
from cdk.streams.stream import Stream

_READING = ("parse", "read_page", "read_records")
"""The methods in which authors make records, those nearest to the records first."""

_FIELDS = 30
_SHOWN = 60

PAGE_RECORDS = 1000
"""The size of a page when an author yields records one by one."""


def read_slice(stream: Stream, slice: Slice) -> Iterator[ReadPage]:
    """Yield the pages of `slice`; the position of the last page is `Done`.

    Without support for checkpointing, no earlier page has a position. If the source refuses the saved token, the slice
    is read again from its start. Secrets of the config are removed from positions, and restored in `slice.start`.

    Raises what the author's code raises. Raises FatalError: the code yielded something else than an `Item`, yielded
    descending values although the cursor is `ordered`, or tried to end the process.
    """
    try:
        yield from _guarded(stream, slice)
    except StaleToken as refused:
        if slice.start == Start():
            raise
        logger.warning("%s %s: %s; reading this slice from its start", stream.name, slice, refused)
        yield ReadPage((), restarted=True)
        yield from _guarded(stream, replace(slice, start=_start_without_token(slice.start)))


def _guarded(stream: Stream, slice: Slice) -> Iterator[ReadPage]:
    """The pages of a slice. Adds what the kit knows to errors of the author's code, and turns `sys.exit` into one."""
    try:
        with ExplainedRefusals():
            yield from _pages(stream, slice)
    except SystemExit as error:
        raise ConnectorExit(error, stream=stream.name) from error


def _start_without_token(start: Position) -> Position:
    """The position to restart a slice at: the author's own state, if any, since only the page token was refused."""
    state = start.paging and start.cursor
    return Checkpoint(state) if state else Start()


def _pages(stream: Stream, slice: Slice) -> Iterator[ReadPage]:
    slice = _with_token(stream, slice)
    if (partition := stream.restored(slice.partition)) is not slice.partition:
        slice = replace(slice, partition=partition)
    finish, by_hand = _Finisher(stream, slice), stream.advanced_by_hand
    records: list[Record] = []
    for item in stream.items(slice):
        # Most items are plain dicts or pages, so abstract classes are not consulted. Records are copied, because the
        # author's code continues before the page is complete, and may refill the same dict or its values. Measured for
        # 10 fields: 1 microsecond, and 4 if two of them hold objects or lists; `dict` alone takes 0.2.
        if type(item) is dict or (type(item) is not Page and isinstance(item, Mapping)):
            record = dict(item)
            records.append(record if SCALARS.issuperset(map(type, record.values())) else copied(record))
            if len(records) < PAGE_RECORDS:
                continue
            yield finish(records, None)
        else:
            match item:
                case Page(page_records, token, warning=warning, doubt=doubt, moved=moved, repeated=repeated):
                    if records:
                        yield finish(records, None)
                    position = None if token is None else _position(stream, slice, token, item)
                    if repeated and not stream.primary_key:
                        warning, repeated = warning or _repeated_records_warning(repeated), 0
                    own, warning = _own_list(page_records, repeated), warning and f"{stream.name}: {warning}"
                    page = finish(own, position, warning, doubt=doubt, followed=token is not None)
                    if moved or repeated or item.runs_job:
                        skipped = page.skipped + repeated
                        page = replace(page, moved=moved, skipped=skipped, runs_job=item.runs_job)
                    yield page
                case Checkpoint():
                    yield finish(records, replace(item, cursor=_named(stream, slice, item.cursor), by_author=by_hand))
                case _:
                    raise FatalError(
                        f"read_records yielded a {type(item).__name__}, expected a record (a mapping), a Page or a "
                        f"Checkpoint{defined_at(stream.read_records)}",
                        stream=stream.name,
                    )
        records = []
    yield finish.end(records)


def _own_list(records: Sequence[Record], repeated: int) -> Sequence[Record]:
    """The records after the repeated ones, in a list that the author's code does not share and cannot refill."""
    if repeated or type(records) is list:
        return records[repeated:]
    return [copied(record) for record in records] if json_lines(records) is None else records


def _position(stream: Stream, slice: Slice, token: Mapping[str, Stored], page: Page) -> Checkpoint:
    """The position after a page that names `token` as the next one."""
    named = partial(_named, stream, slice)
    cursor, paging = named(token), None
    if page.state is not None:
        cursor, paging = named(slice.start.cursor or {}), Paging(cursor, named(page.state))
    listing = Listing(stream.fingerprint, page.total, page.end)
    return Checkpoint(cursor, trail=page.trail, listing=listing, paging=paging)


def _repeated_records_warning(repeated: int) -> str:
    return (
        f"a page starts with the last {repeated:,} records of the previous one: others were added to the list while "
        "its pages were read, so these are duplicated. Declare a primary key, and each is read once"
    )


def _named(stream: Stream, slice: Slice, cursor: Mapping[str, Stored]) -> Mapping[str, Stored]:
    """Convert a cursor or page token for the state: copied, and without secrets.

    Raises FatalError: it uses field names that states reserve.
    """
    if names := reserved_names(cursor, partitioned=bool(slice.partition)):
        raise FatalError(
            f"the state that came with the records has the fields {', '.join(map(repr, names))}, which states "
            f"reserve for other things: it could not be read back. Rename them{defined_at(stream.read_records)}",
            stream=stream.name,
        )
    named: Mapping[str, Stored] = stream.secrets.cut(copied(cursor))
    return named


def _with_token(stream: Stream, slice: Slice) -> Slice:
    """The slice with the secrets of its page token restored.

    Raises StaleToken: the token counts the pages of another request.
    """
    start = slice.start
    if not isinstance(start, Checkpoint):
        return slice
    fingerprint = start.listing.fingerprint
    if fingerprint and fingerprint != stream.fingerprint:
        raise stale_page_token("belongs to another request than the one that the stream sends now")
    restored = partial(_restored, stream)
    paging = start.paging and Paging(restored(start.paging.token), restored(start.paging.state))
    return replace(slice, start=replace(start, cursor=restored(start.cursor), paging=paging))


def _restored(stream: Stream, cursor: Mapping[str, Stored]) -> Mapping[str, Stored]:
    """A cursor with its secrets restored; a copy, which the author may change."""
    restored: Mapping[str, Stored] = stream.secrets.restore(copied(cursor))
    return restored


class _Finisher:
    """Completes pages: drops records that the window does not own, and determines the edge and the position."""

    def __init__(self, stream: Stream, slice: Slice) -> None:
        self._stream, self._slice = stream, slice
        self._edge: Edge | None = None
        self._beyond: object = None
        self._warned_undated = self._warned_outside = self._warned_finer = False
        self._first = True
        self._author_state = AuthorState(stream, slice) if stream.advanced_by_hand else None

    def __call__(
        self,
        records: Sequence[Record],
        position: Position | None,
        warning: str = "",
        *,
        doubt: Callable[[], str] | None = None,
        followed: bool = False,
    ) -> ReadPage:
        cursor, window, skipped = self._stream.cursor, self._slice.window, 0
        if position is not None and not position.done and not self._stream.supports_checkpointing:
            position = None
        if json_lines(records) is None and (kinds := set(map(type, records)) - {dict}):
            self._check_records(records, kinds)
        if cursor is not None and records:
            values = field_values(records, cursor.field)
            # If the cursor can tell them cheaply, the least and the greatest value stand for all.
            looked_at: Sequence[object] | None = cursor.ends(values)
            if looked_at is None:
                warning = warning or self._undated(cursor, records, values)
                looked_at = _present(values)
            sides = [] if window is None else cursor.sides(window, looked_at)
            inside = sides.count(Side.INSIDE) == len(sides)
            if window is not None and not (inside or all(owned(window, side) for side in sides)):
                outside = [i for i, v in enumerate(values) if v is not None and not cursor.owns(window, v)]
                if not (warning or self._warned_outside):
                    warning = self._outside(cursor, window, [values[i] for i in outside], len(records))
                if not cursor.by_request:
                    skipped, foreign = len(outside), set(outside)
                    records = [record for i, record in enumerate(records) if i not in foreign]
                    values = looked_at = _present(field_values(records, cursor.field))
            if looked_at:
                self._advance(cursor, looked_at, values, passes=not inside and Side.AFTER in sides)
                warning = warning or self._finer(cursor, window)
        if cursor is not None and cursor.ordered and (position is None or not position.done):
            position = self._reached(cursor)
        warning = ("" if self._author_state is None else self._author_state.warning(records, position)) or warning
        doubt = doubt and partial(_of_stream, self._stream.name, doubt)
        return ReadPage(records, position, self._edge, skipped, False, warning, doubt, followed)

    def end(self, records: Sequence[Record]) -> ReadPage:
        """The last page; most slices have no records left for it."""
        return self(records, Done()) if records or self._author_state else ReadPage(records, Done(), self._edge)

    def _check_records(self, records: Sequence[Record], kinds: set[type]) -> None:
        """Raise FatalError if an item of a page is not a record."""
        if all(issubclass(kind, Mapping) for kind in kinds):
            return
        methods = (getattr(self._stream, name, None) for name in _READING)
        odd = next(i for i, record in enumerate(records) if not issubclass(type(record), Mapping))
        raise FatalError(
            f"record {odd} of a page is a {type(records[odd]).__name__}, expected a JSON object such as {{'id': 1}}"
            f"{defined_at(*methods)}",
            stream=self._stream.name,
        )

    def _undated(self, cursor: Cursor, records: Sequence[Record], values: Sequence[object]) -> str:
        """The warning, once, about records without a cursor value that parses."""
        if self._warned_undated:
            return ""
        # Parsing each value of each page is expensive, and a source with another format uses it from the start.
        missing = None in values
        look, self._first = self._first or missing, False
        undated = cursor.unreadable(values) if look else ()
        if not undated:
            return ""
        self._warned_undated = True
        value = values[undated[0]]
        # Accessing one of many records that are still JSON text would decode them all.
        lines = json_lines(records)
        record = records[-1] if lines is None else lines.last()
        fields, odd = sorted(record), cursor.unreadable([*record.values()])
        dated = [field for number, field in enumerate(record) if number not in odd]
        near = None if cursor.field in fields else nearest(cursor.field, dated or fields)
        shown = ", ".join(map(repr, fields[:_FIELDS])) + (" and more" if len(fields) > _FIELDS else "")
        hint = "." if near is None else f"; did you mean {near!r}?"
        return (
            f"{self._stream.name}: {len(undated)} of {len(records)} records of a page have no valid value of the "
            f"cursor {cursor.field!r}; the first has {'none' if value is None else repr(value)[:_SHOWN]}. The fields "
            f"of a record: {shown}{hint} Check the cursor's field and formats: such records are read again with every "
            "sync. In a table that merges (write_mode append_dedup) they replace their earlier rows; a table that "
            f"appends has each once only as long as there are at most {Edge.MAX_BYTES // Edge.KEY_BYTES:,} of them"
        )

    def _outside(self, cursor: Cursor, window: Window, values: Sequence[object], count: int) -> str:
        """The warning, once, about records outside of the window. values: theirs. count: the records of the page."""
        sides, requests_edge = cursor.sides(window, values), window.end == window.until
        own = (Side.EDGE,) if requests_edge or not cursor.by_request else ()
        strangers = [value for value, side in zip(values, sides, strict=True) if side not in own]
        if not strangers and not cursor.by_request:
            return ""
        self._warned_outside = True
        if not strangers:
            return (
                f"{self._stream.name}: {len(values)} of {count} records of a page have {values[0]!r} in "
                f"{cursor.field!r}, where this window ends and the next one starts. If the API returns them with both, "
                "they become two rows of a table that appends; one that merges (write_mode append_dedup) has each "
                "once. Set `cursor_granularity` (in Python `granularity`) to the smallest difference between two "
                "timestamps of the API"
            )
        requested = f"from {window.start} on" if window.last else f"from {window.start} to {window.end}"
        field = repr(cursor.field)
        text = (
            f"{self._stream.name}: {len(strangers)} of {count} records of a page lie outside of the window that was "
            f"requested, {requested}; the first has {repr(strangers[0])[:_SHOWN]} in {field}. "
        )
        if cursor.by_request:
            return text + (
                "They become rows all the same: a table that appends gets them again with each sync, one that merges "
                "(write_mode append_dedup) has each once. Check that the API gets the window and filters by "
                f"{field}; if it cannot, set `is_client_side_incremental: true` in the manifest"
            )
        return text + (
            "They are skipped: those of another window are expected with that window, and those before all windows "
            "count as records of an earlier sync. Check that the request sends the window and that the API filters "
            f"by {field}: if it filters by another field, records are lost; if records become visible late, give the "
            "cursor a `lookback`"
        )

    def _finer(self, cursor: Cursor, window: Window | None) -> str:
        """The warning, once, about records that fall between two windows, as the greatest value so far would."""
        if self._warned_finer or window is None or window.last or self._edge is None:
            return ""
        needed = cursor.needed_granularity(window, self._edge.value)
        if needed is None:
            return ""
        self._warned_finer = True
        seconds = f"{needed.total_seconds():f}".rstrip("0").rstrip(".")
        return (
            f"{self._stream.name}: found {self._edge.value!r} in {cursor.field!r}, expected multiples of the "
            f"cursor's granularity, {cursor.granularity}: a window ends at {window.end} and the next starts at "
            f"{window.until}, so records between the two are never requested, and are lost if the API filters by "
            f"these bounds. Set `cursor_granularity: PT{seconds}S` (in Python `granularity`), with a format that "
            "writes windows as finely; or none, so that a window ends where the next starts, if the API excludes the "
            "end"
        )

    def _advance(self, cursor: Cursor, looked_at: Sequence[object], values: Sequence[object], *, passes: bool) -> None:
        """Move the edge to the greatest value that does not lie after the window.

        looked_at: some of `values`, the greatest included. passes: whether one of them lies after the window.
        """
        known = [] if self._edge is None else [self._edge.value]
        if cursor.ordered:
            self._check_order(cursor, known, _present(values))
        greatest, window = cursor.greatest_of_records(looked_at), self._slice.window
        if known:
            greatest = cursor.greatest([*known, greatest])
        if passes and window is not None and not cursor.state_order.reaches(window.until, greatest):
            values = _present(values)
            sides = cursor.sides(window, values)
            within = [v for v, side in zip(values, sides, strict=True) if side is not Side.AFTER]
            greatest = cursor.greatest([*known, cursor.greatest_of_records(within)])
            if cursor.by_request:
                after = [v for v, side in zip(values, sides, strict=True) if side is Side.AFTER]
                self._beyond = cursor.greatest([self._beyond, cursor.greatest_of_records(after)])
        self._edge = None if greatest is None else Edge(greatest, beyond=self._beyond)

    def _check_order(self, cursor: Cursor, known: Sequence[object], values: Sequence[object]) -> None:
        """Raise FatalError if a value is less than one before it: an interrupted read would resume after it."""
        rank, rank_of_known = cursor.order.rank, cursor.state_order.rank
        ranked = [*((value, rank_of_known(value)) for value in known), *((value, rank(value)) for value in values)]
        for (before, least), (value, at) in pairwise([(value, at) for value, at in ranked if at is not None]):
            if at < least:  # type: ignore[operator] # one type in an order
                raise FatalError(
                    f"found {cursor.field} {value!r} after {before!r}, but the cursor is declared `ordered`; request "
                    "ascending order from the source, or declare the cursor without it",
                    stream=self._stream.name,
                )

    def _reached(self, cursor: Cursor) -> Position | None:
        """The position at which an ordered window resumes: the value reached, rounded for windows, if past the start.

        None if the value rounds to the start of the window: resuming there would read the same page again, forever.
        """
        if self._edge is None:
            return None
        value, window = cursor.window_value(self._edge.value), self._slice.window
        if window is not None and (value == window.start or cursor.state_order.reaches(window.start, value)):
            return None
        return Checkpoint({cursor.field: value})


def _of_stream(name: str, doubt: Callable[[], str]) -> str:
    """A doubt, prefixed with the name of its stream."""
    text = doubt()
    return text and f"{name}: {text}"


def _present(values: Sequence[object]) -> list[object]:
    return [value for value in values if value is not None]
