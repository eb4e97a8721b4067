"""Properties: which properties of its records a stream asks for, in groups that an API takes at once."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias, cast

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject, JsonValue, canonical
from cdk.declarative.model.context import Names
from cdk.declarative.model.slice_names import SliceView

NAME = "query_properties"
"""The name under which expressions see the properties of a request."""

_SHOWN = 30

Records: TypeAlias = list[JsonObject]
Merge: TypeAlias = Callable[[Sequence[Records]], Records]


@dataclass(slots=True)
class Properties:
    """The properties to ask for. Found once, when a page is first asked for.

    load: finds all of them. group: cuts them into what one request may ask for. always: what each request asks for.
    merged: the records of a page, from those of its requests.
    """

    load: Callable[[], Sequence[str]]
    group: Callable[[Sequence[str]], Iterable[list[str]]]
    merged: Merge
    always: Sequence[str] = ()
    _known: list[list[str]] = field(default_factory=list)

    def chunks(self) -> Sequence[list[str]]:
        """The properties of each request; at least one request."""
        if not self._known:
            self._known = [[*self.always, *some] for some in self.group(self.load())] or [list(self.always)]
        return self._known


def with_properties(names: Names, properties: list[str]) -> dict[str, object]:
    """The names of a slice, and the properties: as a name of their own and among the slice's extra fields."""
    slice = copy(cast("SliceView", names["stream_slice"]))
    slice.extra_fields = {**slice.extra_fields, NAME: properties}
    return {**names, NAME: properties, "stream_slice": slice, "stream_partition": slice, "stream_interval": slice}


def joined_record(properties: Sequence[str]) -> list[list[str]]:
    """All properties in one request."""
    return [list(properties)]


def by_count(limit: int) -> Callable[[Sequence[str]], Iterable[list[str]]]:
    """Groups of at most `limit` properties."""
    return lambda properties: [list(properties[n : n + limit]) for n in range(0, len(properties), limit)]


def by_length(limit: int) -> Callable[[Sequence[str]], Iterable[list[str]]]:
    """Groups whose text is at most `limit` long: a property counts as its length and three for what parts it.

    One that is longer than the limit is a group of its own.
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


def by_key(key: Callable[[JsonObject], JsonValue]) -> Merge:
    """Records with the same key become one, in the order in which keys came; those without one stay as they are.

    Raises ManifestError: of several parts, no record has one, so that each would be there as often as there are parts.
    """

    def merged(parts: Sequence[Records]) -> Records:
        if len(parts) == 1:
            return parts[0]
        records_of_all = list(chain.from_iterable(parts))
        if records_of_all and all(key(record) is None for record in records_of_all):
            raise ManifestError(
                "the record_merge_strategy found no record with its key, but the fields "
                f"{', '.join(sorted(records_of_all[0])[:_SHOWN])}; expected the key in the records of every request: "
                "correct `key`, or name it in `always_include_properties`"
            )
        known: dict[str, JsonObject] = {}
        records: Records = []
        for record in records_of_all:
            value = key(record)
            name = None if value is None else canonical(value)
            if name is None:
                records.append(record)
            elif (other := known.get(name)) is None:
                known[name] = record
                records.append(record)
            else:
                _merge(other, record)
        return records

    return merged


def _merge(into: JsonObject, record: JsonObject) -> None:
    """Add what `record` has; where both have a value, that of `record` counts, and objects are merged."""
    for name, value in record.items():
        held = into.get(name)
        if type(held) is dict and type(value) is dict:
            _merge(held, value)
        else:
            into[name] = value
