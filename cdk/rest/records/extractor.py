"""Extractors: from a response to its records, a page at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Protocol, TypeAlias, TypeGuard

from cdk.base.errors import DecodeError
from cdk.base.logs import logger
from cdk.base.values import JsonValue, json_kind
from cdk.rest.errors.failed_body import refuse_outage
from cdk.rest.http.json_path import ANY, absence, path
from cdk.rest.http.messages import Request, Response
from cdk.rest.records.decoder import Decoder, JsonDocument

PAGE = 1000
"""Records of a page, where a decoder streams."""

Records: TypeAlias = list[dict[str, JsonValue]]


class Extractor(Protocol):
    """Finds the records of a response.

    Contract: pure, and safe to use from several threads. Raises DecodeError: the body is not in the format, or no
    objects lie where records should.
    """

    def pages(self, response: Response) -> Iterator[Records]:
        """The records, in lists of a size that memory can hold; one list, maybe empty, of a body decoded whole."""

    def values(self, response: Response) -> Iterator[Sequence[JsonValue]]:
        """What lies where records should, be it records or not: a list of addresses, for example."""
        return self.pages(response)

    def absence(self, response: Response) -> str:
        """Why there are no records in a body, in words; empty where none are missing, or who knows."""
        return ""

    @property
    def path(self) -> tuple[str, ...] | None:
        """Where the records lie in a body, for people; None where no path says it."""
        return None

    @property
    def paths(self) -> Sequence[tuple[str, ...]]:
        """The places in a body where records may lie; none where no paths say it."""
        return () if self.path is None else (self.path,)

    @property
    def text_path(self) -> tuple[str, ...] | None:
        """Where the records lie, if they may stay text until one of them is looked at; None: they must be decoded."""
        return None


class CountedRecords(list[dict[str, JsonValue]]):
    """Records of which some were left out. raw: how many there were, which is what a paginator counts."""

    __slots__ = ("raw",)

    def __init__(self, records: Records, raw: int) -> None:
        super().__init__(records)
        self.raw = raw


def raw_count(records: Records) -> int:
    """How many records there were before some were left out."""
    return records.raw if isinstance(records, CountedRecords) else len(records)


@dataclass(frozen=True, slots=True)
class FieldExtractor(Extractor):
    """The records at a path of the body.

    A list there gives its elements, an object is one record if it is not empty, nothing gives nothing. `"*"` in the
    path stands for every element of a list or value of an object. Of a body that is a list, the path begins in each
    element. Nulls among the records are left out.

    expand: turns the records of a page into others, in pages.
    """

    decoder: Decoder
    where: tuple[str, ...] = ()
    expand: Callable[[Records], Iterator[Records]] | None = None
    _find: Callable[[JsonValue], list[JsonValue]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_find", _finder(self.where))

    def pages(self, response: Response) -> Iterator[Records]:
        for values in self.values(response):
            records = objects(values, self.where, response.request)
            yield from [records] if self.expand is None else self._expanded(records, self.expand)

    def _expanded(self, records: Records, expand: Callable[[Records], Iterator[Records]]) -> Iterator[Records]:
        """What is made of records. They are counted as the API did, which knows nothing of those made of them."""
        raw = raw_count(records)
        for page in expand(records):
            yield CountedRecords(page, raw)
            raw = 0

    @property
    def path(self) -> tuple[str, ...] | None:
        return self.where

    @property
    def text_path(self) -> tuple[str, ...] | None:
        # In a body that is a list, objects without fields are left out.
        undecoded = self.expand is None and type(self.decoder) is JsonDocument
        return self.where if self.where and undecoded else None

    def absence(self, response: Response) -> str:
        """Where in a body without records the path comes to an end, in words; empty where it does not, or who knows."""
        if self.decoder.streams:
            return ""
        return absence(self.decoder.decode(response), self.where)

    def values(self, response: Response) -> Iterator[list[JsonValue]]:
        if not self.decoder.streams:
            yield self._find(self.decoder.decode(response))
            return
        items = self.decoder.items(response)
        while batch := list(islice(items, PAGE)):
            for item in batch if self.where and self.where[0] != ANY else ():
                if type(item) is dict and not item.get(self.where[0]):
                    refuse_outage(response, item, self.where)
            yield self._find(batch)


def objects(values: list[JsonValue], where: tuple[str, ...], request: Request) -> Records:
    """`values` as records, without nulls. Raises DecodeError: there is something else among them."""
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
    """The function from a decoded body to the list of what lies at a path."""
    follow = path(*where)

    def find(body: JsonValue) -> list[JsonValue]:
        if type(body) is list:
            return each(body)
        return _listed(follow(body))

    def elements(body: list[JsonValue]) -> list[JsonValue]:
        return [value for element in body for value in _listed(follow(element))]

    def top(body: list[JsonValue]) -> list[JsonValue]:
        if all(body) and set(map(type, body)) <= {dict}:
            return body
        return elements(body)

    def wild(body: list[JsonValue]) -> list[JsonValue]:
        # In a list of objects `*` may mean the values of each object, or the objects.
        values = elements(body)
        return values if dict in map(type, values) else _listed(follow(body))

    each = top if not where else wild if where[0] == ANY else elements
    return find


def _listed(value: JsonValue) -> list[JsonValue]:
    if type(value) is list:
        return value
    return [value] if value else []


@dataclass(frozen=True, slots=True)
class ExtractorGroup(Extractor):
    """The records of several extractors, which must be able to read the same response one after the other.

    first_match: those of the first that has any, instead of all. skip_empty: leave out records that are `{}`, with a
    warning; an extractor that has only such has none.

    Records that are left out count for the paginator (`raw_count`): the page is as full as the API made it.
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
        """A page without empty records, if they are to be left out; `number`, from 0, is its extractor."""
        if not self.skip_empty or all(page):
            return page
        checked = CountedRecords([record for record in page if record], raw_count(page))
        logger.warning(
            "%s: %d empty records of extractor %d are left out; the body may say why they are empty",
            response.request,
            len(page) - len(checked),
            number + 1,
        )
        return checked
