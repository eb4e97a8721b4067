"""Extractors: find the records of a response, a page at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Protocol, TypeAlias, TypeGuard

from cdk.base.errors import DecodeError
from cdk.base.logs import logger
from cdk.base.values import JsonValue, json_kind
from cdk.rest.errors.failed_body import raise_on_outage
from cdk.rest.http.json_path import ANY, absence, path
from cdk.rest.http.messages import Request, Response
from cdk.rest.records.decoder import Decoder, JsonDocument

PAGE = 1000
"""The number of records per page if a decoder streams."""

Records: TypeAlias = list[dict[str, JsonValue]]


class Extractor(Protocol):
    """Finds the records of a response.

    Contract: pure and thread-safe. Raises DecodeError: when the body is not in the format, or when the values at the
    path of the records are not objects.
    """

    def pages(self, response: Response) -> Iterator[Records]:
        """Yield the records in lists that fit into memory; one list, possibly empty, if the body is decoded at once."""

    def values(self, response: Response) -> Iterator[Sequence[JsonValue]]:
        """Yield the values at the path of the records, even if they are not objects: for example a list of URLs."""
        return self.pages(response)

    def absence(self, response: Response) -> str:
        """Describe why the path of the records is missing in a body; empty if it is not, or if that is unknown."""
        return ""

    @property
    def path(self) -> tuple[str, ...] | None:
        """The path of the records in a body, for display; None if no single path describes it."""
        return None

    @property
    def paths(self) -> Sequence[tuple[str, ...]]:
        """The paths in a body at which records may be; empty if no paths describe it."""
        return () if self.path is None else (self.path,)

    @property
    def text_path(self) -> tuple[str, ...] | None:
        """The path of the records if they need not be decoded until code accesses one of them, else None."""
        return None


class CountedRecords(list[dict[str, JsonValue]]):
    """Records of which some were dropped. raw: the number before that, which is what a paginator counts."""

    __slots__ = ("raw",)

    def __init__(self, records: Records, raw: int) -> None:
        super().__init__(records)
        self.raw = raw


def raw_count(records: Records) -> int:
    """Return how many records there were before some were dropped."""
    return records.raw if isinstance(records, CountedRecords) else len(records)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FieldExtractor(Extractor):
    """Extracts the records at a path of the body.

    The elements of a list are records, a non-empty object is one record, and a missing value yields no records. `"*"`
    in the path matches every element of a list or value of an object. If the body is a list, the path is followed from
    each element. Nulls among the records are dropped.

    expand: turns the records of a page into others, in pages.
    """

    decoder: Decoder
    where: tuple[str, ...] = ()
    expand: Callable[[Records], Iterator[Records]] | None = None
    _find: Callable[[JsonValue], list[JsonValue]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_find", _finder(self.where))

    def pages(self, response: Response) -> Iterator[Records]:
        for values in self.values(response):
            records = objects(values, self.where, response.request)
            yield from [records] if self.expand is None else self._expanded(records, self.expand)

    def _expanded(self, records: Records, expand: Callable[[Records], Iterator[Records]]) -> Iterator[Records]:
        """Yield the expanded records. Their `raw` count is that of the original records, as the API counts those."""
        raw = raw_count(records)
        for page in expand(records):
            yield CountedRecords(page, raw)
            raw = 0

    @property
    def path(self) -> tuple[str, ...] | None:
        return self.where

    @property
    def text_path(self) -> tuple[str, ...] | None:
        # Not for an empty path: in a body that is a list, objects without fields must be dropped.
        undecoded = self.expand is None and type(self.decoder) is JsonDocument
        return self.where if self.where and undecoded else None

    def absence(self, response: Response) -> str:
        """Describe where the path ends early in a body without records; empty if it does not, or if that is unknown."""
        if self.decoder.streams:
            return ""
        body = self.decoder.decode(response)
        each = [ANY] if type(body) is list and self.where[:1] != (ANY,) else []
        return absence(body, [*each, *self.where])

    def values(self, response: Response) -> Iterator[list[JsonValue]]:
        if not self.decoder.streams:
            yield self._find(self.decoder.decode(response))
            return
        items = self.decoder.items(response)
        while batch := list(islice(items, PAGE)):
            for item in batch if self.where and self.where[0] != ANY else ():
                if type(item) is dict and not item.get(self.where[0]):
                    raise_on_outage(response, item, self.where)
            yield self._find(batch)


def objects(values: list[JsonValue], where: tuple[str, ...], request: Request) -> Records:
    """Return `values` as records, without nulls. Raises DecodeError: when they include anything else."""
    if _are_objects(values):
        return values
    present: list[JsonValue] = [value for value in values if value is not None]
    if _are_objects(present):
        return CountedRecords(present, len(values))
    kind = next(json_kind(value) for value in present if type(value) is not dict)
    location = " > ".join(where) or "the top of the body"
    raise DecodeError(f"{request}: found {kind} at {location}, expected objects; check `field_path`")


def _are_objects(values: list[JsonValue]) -> TypeGuard[Records]:
    return set(map(type, values)) <= {dict}


def _finder(where: tuple[str, ...]) -> Callable[[JsonValue], list[JsonValue]]:
    """Return the function that lists the values at a path of a decoded body."""
    follow = path(*where)

    def find(body: JsonValue) -> list[JsonValue]:
        return each(body) if type(body) is list else _listed(follow(body))

    def elements(body: list[JsonValue]) -> list[JsonValue]:
        return [value for element in body for value in _listed(follow(element))]

    def top(body: list[JsonValue]) -> list[JsonValue]:
        return body if all(body) and set(map(type, body)) <= {dict} else elements(body)

    def wild(body: list[JsonValue]) -> list[JsonValue]:
        # For a list of objects, `*` may mean the values of each object, or the objects themselves.
        values = elements(body)
        return values if dict in map(type, values) else _listed(follow(body))

    each = top if not where else wild if where[0] == ANY else elements
    return find


def _listed(value: JsonValue) -> list[JsonValue]:
    if type(value) is list:
        return value
    return [value] if value else []


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExtractorGroup(Extractor):
    """Combines the records of several extractors, which must be able to read the same response one after the other.

    first_match: whether to use only the first extractor that has records. skip_empty: whether to drop records that are
    `{}`, with a warning; an extractor with only such records counts as having none.

    Dropped records still count for the paginator (`raw_count`), because the API counted them.
    """

    extractors: Sequence[Extractor]
    first_match: bool = False
    skip_empty: bool = False

    def absence(self, response: Response) -> str:
        absences = [extractor.absence(response) for extractor in self.extractors]
        return " and ".join(absences) if all(absences) else ""

    @property
    def paths(self) -> Sequence[tuple[str, ...]]:
        paths = [extractor.paths for extractor in self.extractors]
        return list(chain.from_iterable(paths)) if all(paths) else ()

    def pages(self, response: Response) -> Iterator[Records]:
        dropped = 0  # records of extractors before the first match, as the API counts them
        for number, extractor in enumerate(self.extractors):
            matched = False
            for page in extractor.pages(response):
                records = self._checked(page, response, number)
                matched = matched or bool(records)
                if records or not self.first_match:
                    yield records
                else:
                    dropped += raw_count(records)
            if matched and self.first_match:
                return
        if self.first_match:
            yield CountedRecords([], dropped)

    def values(self, response: Response) -> Iterator[Sequence[JsonValue]]:
        for extractor in self.extractors:
            values = list(chain.from_iterable(extractor.values(response)))
            yield values
            if values and self.first_match:
                return

    def _checked(self, page: Records, response: Response, number: int) -> Records:
        """Return a page without empty records if these are to be dropped. number: the index of its extractor."""
        if not self.skip_empty or all(page):
            return page
        checked = CountedRecords([record for record in page if record], raw_count(page))
        text = "%s: %d empty records of extractor %d are left out; the body may say why they are empty"
        logger.warning(text, response.request, len(page) - len(checked), number + 1)
        return checked
