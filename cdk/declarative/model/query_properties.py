"""Properties: the record properties that a stream requests, in groups small enough for one request each."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from itertools import chain
from typing import TypeAlias, cast

from msgspec import Struct, field

from cdk.base.errors import ManifestError
from cdk.base.logs import FirstWarning
from cdk.base.values import JsonObject, JsonValue, canonical
from cdk.declarative.model.context import Names
from cdk.declarative.model.slice_names import SliceView

NAME = "query_properties"
"""The name of a request's properties in expressions."""

_SHOWN = 30

Records: TypeAlias = list[JsonObject]
Merge: TypeAlias = Callable[[Sequence[Records]], Records]


class Properties(Struct):
    """The properties to request. Loaded once, when the first page is requested.

    load: returns all of them. group: splits them into groups for one request each. always: properties of every request.
    merged: combines the records of a page's requests.
    """

    load: Callable[[], Sequence[str]]
    group: Callable[[Sequence[str]], Iterable[list[str]]]
    merged: Merge
    always: Sequence[str] = ()
    _known: list[list[str]] = field(default_factory=list)

    def chunks(self) -> Sequence[list[str]]:
        """Return the properties of each request; at least one request."""
        if not self._known:
            self._known = [[*self.always, *some] for some in self.group(self.load())] or [list(self.always)]
        return self._known


def with_properties(names: Names, properties: list[str]) -> dict[str, object]:
    """Return a slice's names with the properties added, as a name of their own and among the slice's extra fields."""
    slice = copy(cast("SliceView", names["stream_slice"]))
    slice.extra_fields = {**slice.extra_fields, NAME: properties}
    return {**names, NAME: properties, "stream_slice": slice, "stream_partition": slice, "stream_interval": slice}


def joined_record(properties: Sequence[str]) -> list[list[str]]:
    """Return all properties as one group."""
    return [list(properties)]


def by_count(limit: int) -> Callable[[Sequence[str]], Iterable[list[str]]]:
    """Return a function that makes groups of at most `limit` properties."""
    return lambda properties: [list(properties[n : n + limit]) for n in range(0, len(properties), limit)]


def by_length(limit: int) -> Callable[[Sequence[str]], Iterable[list[str]]]:
    """Return a function that makes groups of at most `limit` characters: each property counts 3 more, for separators.

    A property longer than the limit is a group of its own.
    """

    def group(properties: Sequence[str]) -> Iterable[list[str]]:
        some: list[str] = []
        size = 0
        for name in properties:
            length = len(name) + 3
            if some and size + length > limit:
                yield some
                some, size = [], 0
            some.append(name)
            size += length
        if some:
            yield some

    return group


def by_key(key: Callable[[JsonObject], JsonValue], where: str) -> Merge:
    """Return a function that merges records with the same key, in order of first occurrence; others stay as they are.

    It warns of the first records that a part lacks. where: the place of the strategy.
    Raises ManifestError: when, of several parts, no record has a key, so that every record would be duplicated.
    """
    warn = FirstWarning()

    def merged(parts: Sequence[Records]) -> Records:
        if len(parts) == 1:
            return parts[0]
        records_of_all = list(chain.from_iterable(parts))
        if records_of_all and all(key(record) is None for record in records_of_all):
            raise ManifestError(
                "the record_merge_strategy found no record with its key; the first record has the fields "
                f"{', '.join(sorted(records_of_all[0])[:_SHOWN])}; expected the key in the records of every request: "
                "correct `key`, or add it to `always_include_properties`"
            )
        known: dict[str, JsonObject] = {}
        records: Records = []
        parts_with = Counter[str]()
        for part in parts:
            names = set[str]()
            for record in part:
                value = key(record)
                name = None if value is None else canonical(value)
                if name is None:
                    records.append(record)
                    continue
                names.add(name)
                if (other := known.get(name)) is None:
                    known[name] = record
                    records.append(record)
                else:
                    _merge(other, record)
            parts_with.update(names)
        in_all = sum(count == len(parts) for count in parts_with.values())
        if in_all < len(records):
            warn(
                f"{len(records) - in_all} of {len(records)} records of a page were not in the responses to all of its "
                f"{len(parts)} requests, or have no key, and lack properties: the list has moved between the requests, "
                "or the API omits such records. Read again, at a time when the list is at rest",
                where,
            )
        return records

    return merged


def _merge(into: JsonObject, record: JsonObject) -> None:
    """Merge `record` into `into`: values of `record` win, and objects are merged recursively."""
    for name, value in record.items():
        held = into.get(name)
        if type(held) is dict and type(value) is dict:
            _merge(held, value)
        else:
            into[name] = value
