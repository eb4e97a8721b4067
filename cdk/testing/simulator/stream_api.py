"""StreamApi: the part of an API that one stream reads, found by probing the stream with trial responses.

The stream itself shows how it sends requests, however it is built: the simulator looks at its requests and keeps the
responses after which it continues or stops. A stream that does not read trial pages as expected is not simulated.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import CdkError
from cdk.base.run import RunScope
from cdk.base.values import FieldValue, JsonObject, Keys, map_leaves
from cdk.declarative.reading.manifest_stream import ManifestStream
from cdk.declarative.reading.page_reader import PageReader
from cdk.declarative.reading.recovering_reader import RecoveringReader
from cdk.rest import Authenticator, HttpStream, JsonDocument, Request, Response
from cdk.rest.pagination.last_page import DoubtsEnd
from cdk.rest.pagination.next_link import LinkHeader
from cdk.rest.pagination.page_number import Counting
from cdk.rest.records.extractor import FieldExtractor
from cdk.state.slice import Partition, Slice
from cdk.state.window import Window
from cdk.streams.page import Page
from cdk.streams.stream import Stream
from cdk.testing.simulation import simulated
from cdk.testing.simulator.pages import TOKEN, URL, PageShape, last_pages, page_token, places, shapes, token_in
from cdk.testing.simulator.records import Collection, Path, World, without
from cdk.testing.simulator.templates import (
    Bounds,
    Leaf,
    Query,
    RequestTemplate,
    bounds_of,
    differing,
    leaves,
    probe_windows,
)

_USUAL_SIZE = 10
_PARTS_IN_MEMORY = 50
_PARTITIONS = 40
"""How many partitions are examined to see how their requests differ."""

Answer = Callable[[Request], Response]

ADVICE = "answer it with a cassette or a MockApi"
_ADVICE_OWN = (
    f"{ADVICE} if it sends its requests with `HttpClient` of `cdk.rest`; those of another library, such as "
    "`requests`, cannot be answered by the kit: mock that library in a test"
)


class NotSimulated(Exception):
    """Raised with the reason why a stream is not simulated. advice: what to do instead."""

    def __init__(self, why: str, advice: str = ADVICE) -> None:
        super().__init__(why)
        self.advice = advice


class StreamTraits(Struct, frozen=True):
    """What must be known about a stream. path: of the records in a body. deciding_paths, size: of its paginator."""

    path: tuple[str, ...]
    deciding_paths: Sequence[tuple[str, ...]]
    size: int | None
    authenticator: Authenticator | None
    descending: bool = False

    @classmethod
    def of(cls, stream: Stream) -> "StreamTraits":
        """Return the traits of a stream.

        Raises NotSimulated: when the stream is not built from parts that reveal it.
        """
        match stream:
            case ManifestStream(reader=RecoveringReader(inner=PageReader() as reader)):
                return cls._of_manifest(reader)
            case ManifestStream(reader=reader):
                why = f"its retriever ({type(reader).__module__.rpartition('.')[2]}) does not read plain pages"
                raise NotSimulated(why)
            case HttpStream() if type(stream).parse is HttpStream.parse and type(stream.decoder) is JsonDocument:
                paginator = stream.paginator
                deciding_paths = paginator.deciding_paths if isinstance(paginator, DoubtsEnd | LinkHeader) else ()
                size = paginator.size if isinstance(paginator, Counting) else None
                return cls(tuple(stream.records_path), deciding_paths, size, stream.authenticator())
            case HttpStream():
                raise NotSimulated("its `parse`, or its decoder, is custom code")
            case _:
                raise NotSimulated(f"{type(stream).__name__} reads with custom code", _ADVICE_OWN)

    @classmethod
    def _of_manifest(cls, reader: PageReader) -> "StreamTraits":
        extractor = reader.extractor
        if not isinstance(extractor, FieldExtractor) or extractor.expand is not None:
            raise NotSimulated("its extractor is not a DpathExtractor, or expands records")
        if type(reader.decoder) is not JsonDocument:
            raise NotSimulated(f"its bodies are not JSON: {type(reader.decoder).__name__}")
        if reader.properties is not None:
            raise NotSimulated("it requests its properties in groups (QueryProperties)")
        if reader.lazy:
            raise NotSimulated("records of its parent hold its first page (lazy_read_pointer)")
        incremental = reader.incremental
        feed = incremental is not None and incremental.data_feed
        client = reader.requester.client
        strategy = reader.pages.strategy
        return cls(extractor.where, strategy.deciding_paths, strategy.size, client.authenticator, feed)


def _all_of(stream: Stream, world: World) -> Window | None:
    """Return a window that contains all records; None without a cursor or windows."""
    if stream.cursor is None:
        return None
    windows = list(stream.cursor.windows(None, world.present))
    return replace(windows[-1], start=windows[0].start) if windows else None


def _altered(partition: Partition) -> Partition:
    """Return the partition with all values changed, so that a single partition shows where its values appear."""

    def other(_: Keys, value: FieldValue) -> FieldValue:
        if value is None or isinstance(value, bool):
            return value
        return value + 1 if isinstance(value, int | float) else f"{value}x"

    return Partition(map_leaves(partition.fields, other), extra=map_leaves(partition.extra, other))


class _Enough(BaseException):
    """Raised to end a read when the stream has sent the awaited request."""


class Probe:
    """A transport that answers a stream's requests with given responses, and ends the read at the request after them.

    logs_in: answers logins; returns None for all other requests.
    """

    def __init__(self, logs_in: Callable[[Request], Response | None]) -> None:
        self._logs_in = logs_in
        self._answers: list[Answer] = []
        self._requests: list[Request] = []

    def send(self, request: Request) -> Response:
        login = self._logs_in(request)
        if login is not None:
            return login
        self._requests.append(request)
        if len(self._requests) > len(self._answers):
            raise _Enough
        return self._answers[len(self._requests) - 1](request)

    def read(self, stream: Stream, slice: Slice, *answers: Answer) -> tuple[list[Request], int]:
        """Return the requests of a slice and the number of its records.

        The last request is unanswered if there is one more than answers.
        Raises NotSimulated: when the stream takes a response for an error.
        """
        self._answers, self._requests, count = [*answers], [], 0
        with RunScope().working(), simulated(self):
            try:
                for item in stream.read_records(slice):
                    count += len(item.records) if isinstance(item, Page) else 1
            except _Enough:
                pass
            except (CdkError, ValueError) as error:
                raise NotSimulated(f"it treats a simulated page as an error: {error}") from error
        return self._requests, count


class StreamApi:
    """Answers the requests of one stream. name: the key in the simulator: the stream's name, or that of it as a parent.

    added: fields that the stream itself adds to records. Raises NotSimulated: with the reason.
    """

    def __init__(
        self,
        name: str,
        stream: Stream,
        traits: StreamTraits,
        *,
        collection: Collection,
        added: Sequence[Path],
        world: World,
        probe: Probe,
    ) -> None:
        self._name, self.stream, self.collection = name, stream, collection
        self._added, self._world, self._probe = added, world, probe
        windows = probe_windows(stream.cursor)
        partitions = list(islice(stream.partitions(), _PARTITIONS))
        if not partitions:
            raise NotSimulated("its parents, as they are simulated, have no record that it is read for")
        self._token_leaf: Leaf = ()
        self._sampled: Sequence[JsonObject] = ()
        self._parts: dict[str, Sequence[JsonObject]] = {}
        self._slice = Slice(partitions[0], windows[0])
        self._unbounded = Slice(partitions[0], _all_of(stream, world))
        self.first = self._request(self._slice)
        base = leaves(self.first)
        others = [*partitions[1:], *([_altered(partitions[0])] if partitions[0] else [])]
        sent = [leaves(self._request(Slice(each, windows[0]))) for each in others]
        keyed = frozenset(leaf for other in sent for leaf in differing(base, other))
        windowed: dict[Leaf, Bounds | None] = {}
        if stream.cursor is not None:
            other = leaves(self._request(Slice(partitions[0], windows[1])))
            windowed = {
                leaf: bounds_of(stream.cursor, (base.get(leaf, ""), other.get(leaf, "")), keyed=leaf in keyed)
                for leaf in differing(base, other)
            }
        self.template = RequestTemplate(base, keyed, windowed)
        self.filters = stream.cursor is None or any(windowed.values())
        self.shape = self._shape(traits)

    @property
    def pattern(self) -> str:
        """The URL of its requests, with `*` for the parts that differ."""
        origin, _, path = self.first.full_url.partition("?")[0].partition("://")
        host = path.partition("/")[0]
        varies = {
            leaf[1]
            for leaf in (*self.template.keyed, *(self.template.windowed or ()), *self.template.paged)
            if leaf[0] == "path"
        }
        shown = ["*" if str(at) in varies else part for at, part in enumerate(path.split("/")[1:], 1)]
        return f"{origin}://{'/'.join([host, *shown])}"

    def key_of(self, partition: Partition) -> str:
        """Return the key of a partition among the parts of the collection."""
        query = self.template.match(leaves(self._request(replace(self._slice, partition=partition))))
        assert query is not None
        return query.part

    def answer(self, request: Request, query: Query) -> Response:
        """Return the page that a request asks for."""
        rows = [row for row in self._records(query.part) if self._in_window(row, query)]
        shape, sent = self.shape, leaves(request)
        begin = self._begin(rows, sent) if query.position is None else query.position
        size = shape.size or len(rows) or 1
        end = begin + size
        token = None
        if end < len(rows):
            token = page_token([self._name, query.part, query.lower, query.upper, end])
        return shape.response(request, self._shown(rows[begin:end]), begin // size, token)

    def serve(self, collection: Collection, world: World) -> None:
        """Serve the records of a collection in a world from now on."""
        self.collection, self._world = collection, world
        self._parts.clear()

    def records(self, part: str) -> Sequence[JsonObject]:
        """Return all records of a part, as responses contain them."""
        return self._shown(self._records(part))

    def _shown(self, rows: Sequence[JsonObject]) -> Sequence[JsonObject]:
        return [reduce(without, self._added, row) for row in rows]

    def _records(self, part: str) -> Sequence[JsonObject]:
        """Return the records of a part. The last few parts are cached, because a part is read in many requests."""
        if part not in self._parts:
            if len(self._parts) >= _PARTS_IN_MEMORY:
                self._parts.clear()
            self._parts[part] = self.collection.records(self._world, part)
        return self._parts[part]

    def _in_window(self, row: JsonObject, query: Query) -> bool:
        cursor = self.collection.cursor
        if cursor is None or (query.lower is None and query.upper is None):
            return True
        rank = cursor.order.rank(row.get(cursor.field))
        if not isinstance(rank, int):
            return True
        return (query.lower is None or rank >= query.lower) and (query.upper is None or rank <= query.upper)

    def _begin(self, rows: Sequence[JsonObject], sent: dict[Leaf, str]) -> int:
        """Return the index of the first row of the page that a request without a token asks for."""
        shape, text = self.shape, sent.get(self._token_leaf)
        if text is None:
            return 0
        if shape.after is not None:
            known = [str(row.get(shape.after)) for row in rows]
            return known.index(text) + 1 if text in known else 0
        if shape.step and text.lstrip("-").isdigit():
            return max(0, (int(text) - shape.first) * (shape.size or 1) // shape.step)
        return 0

    def _request(self, slice: Slice) -> Request:
        requests, _ = self._probe.read(self.stream, slice)
        if not requests:
            raise NotSimulated("it sends no request for a slice")
        if "://" not in requests[0].url:
            raise NotSimulated(f"its URL {requests[0].url!r} has no scheme; give a config that has the address")
        return requests[0]

    def _shape(self, traits: StreamTraits) -> PageShape:
        """Return a shape of pages that the stream reads to their end. Raises NotSimulated: when none is found."""
        largest = _USUAL_SIZE if traits.size is None else traits.size
        sizes = list(
            dict.fromkeys(
                size
                for size in (min(_USUAL_SIZE, largest), largest)
                if 0 < size <= max(_USUAL_SIZE, self._world.total_records)
            )
        )
        problem = NotSimulated("it requests the same page forever")
        template = self.template
        for shape in shapes(traits.path, sizes, traits.deciding_paths):
            try:
                if (paged_shape := self._tried(shape)) is not None:
                    # Found with small pages, but real pages are as large as the stream asks for.
                    return paged_shape if shape.single else replace(paged_shape, size=largest)
            except NotSimulated as refused:
                problem = refused
        self.template = template
        single_page = PageShape(traits.path, more=[(path, None) for path in places(traits.deciding_paths)])
        ended, why = self._ended(single_page, self._samples(3))
        if ended is None:
            raise why or problem
        return replace(ended, more=())

    def _tried(self, shape: PageShape) -> PageShape | None:
        """Return the shape if the stream pages through it and stops, or else None.

        Raises NotSimulated: see `Probe.read`.
        """
        size = shape.size or 1
        rows = self._samples(2 * size)
        tokens = [page_token([self._name, "", None, None, at * size]) for at in (1, 2)]
        pages = [
            partial(shape.response, records=rows[at * size : (at + 1) * size], number=at, token=tokens[at])
            for at in (0, 1)
        ]
        requests, _ = self._probe.read(self.stream, self._unbounded, *pages)
        if len(requests) <= len(pages):
            return None
        placed = self._placed(shape, requests, rows)
        return None if placed is None else self._ended(placed, ())[0]

    def _ended(
        self, shape: PageShape, rows: Sequence[JsonObject]
    ) -> tuple[PageShape, None] | tuple[None, NotSimulated | None]:
        """Return the shape with a page of these rows at which the stream stops; or None, and why none was found."""
        problem = None
        for last in last_pages(shape):
            ended = replace(shape, last=last)
            try:
                answer = partial(ended.response, records=rows, number=0, token=None)
                requests, _ = self._probe.read(self.stream, self._unbounded, answer)
            except NotSimulated as refused:
                problem = refused
                continue
            if len(requests) == 1:
                return ended, None
        return None, problem

    def _samples(self, count: int) -> Sequence[JsonObject]:
        if len(self._sampled) < count:
            self._sampled = self._shown(self.collection.samples(self._world, count))
        return self._sampled[:count]

    def _placed(self, shape: PageShape, requests: Sequence[Request], rows: Sequence[JsonObject]) -> PageShape | None:
        """Return the shape with the way in which the stream requests further pages; None if that is unclear.

        requests: for the first three pages, of which the first two contained `rows`.
        """
        first, second, third = map(leaves, requests)
        moved = differing(second, third)
        if not moved:
            return None
        self.template = replace(self.template, paged=frozenset({*moved, *(second.keys() - first.keys())}))
        if token_in(requests[1]) is not None:
            # A token that the stream takes for a URL path is not one that an API would send.
            return None if any(leaf[0] == "path" for leaf in moved) else shape
        if any(value in {TOKEN, URL} for _, value in shape.more if isinstance(value, str)):
            return None
        size = shape.size or 1
        self.template = replace(self.template, paged=frozenset(moved))
        for leaf in sorted(moved):
            second_value, third_value = second.get(leaf, ""), third.get(leaf, "")
            for name, value in rows[size - 1].items():
                if str(value) == second_value and str(rows[2 * size - 1].get(name)) == third_value:
                    self._token_leaf = leaf
                    return replace(shape, after=name)
            if second_value.isdigit() and third_value.isdigit() and int(third_value) > int(second_value):
                self._token_leaf, step = leaf, int(third_value) - int(second_value)
                return replace(shape, first=int(second_value) - step, step=step)
        return None
