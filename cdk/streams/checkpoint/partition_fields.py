"""Compares the source's partitions with those of the state, by their fields and by the types of their values."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import chain, islice, product

import orjson

from cdk.base.values import FieldValue, canonical, from_json
from cdk.state.slice import Partition

_MOST_FORMS = 64
"""How many variants of a partition, with values of other types, are looked up in the state."""
_EXACT = 2**53
"""Floats represent all integers below this exactly."""


class ComparedFields:
    """Collects the fields of the source's partitions until one matches the state; if none does, no partition resumes.

    known: the partitions of the state, at least one.
    """

    def __init__(self, known: Collection[Partition]) -> None:
        self._known = known
        self._listed: set[frozenset[str]] = set()

    def has_those_of(self, partition: Partition) -> bool:
        """Whether a partition of the state has the same fields as `partition`; False if these fields were seen before.

        Adds the fields to `difference`.
        """
        fields = _names(partition.fields)
        if fields in self._listed:
            return False
        self._listed.add(fields)
        # The first of many in the state matches if nothing has changed.
        return any(_names(known.fields) == fields for known in self._known)

    @property
    def difference(self) -> str:
        """A message with the fields of the state's partitions and of the source's; empty if the source has none."""
        if not self._listed:
            return ""
        known = {_names(partition.fields) for partition in self._known}
        old, new = (", ".join(map(repr, sorted(min(fields, key=sorted)))) for fields in (known, self._listed))
        return f"the state has partitions by {old}, but the source's partitions now have {new or 'no fields'}"


def other_types(partition: Partition) -> Iterator[Partition]:
    """The variants of a partition with values of other types: numbers as strings or as another kind, and vice versa."""
    return (Partition(fields) for fields in islice(_forms(partition.fields), 1, _MOST_FORMS))


def _forms(value: FieldValue) -> Iterator[FieldValue]:
    """The value itself, then its representations in other types."""
    match value:
        case dict():
            choices = [[(name, form) for form in _forms(part)] for name, part in value.items()]
            yield from map(dict, product(*choices))
        case str():
            yield value
            with suppress(orjson.JSONDecodeError):
                other = from_json(value)
                if not isinstance(other, str | dict | list) and canonical(other) == value:
                    yield from _forms(other)
        case float() if value.is_integer():
            yield from (value, int(value), canonical(value), canonical(int(value)))
        case int() if not isinstance(value, bool) and abs(value) < _EXACT:
            yield from (value, float(value), canonical(value), canonical(float(value)))
        case _:
            yield from (value, canonical(value))


def _names(fields: FieldValue, path: str = "") -> frozenset[str]:
    """The paths of a partition's fields, including those inside the partition of a parent."""
    match fields:
        case dict() if fields or not path:
            parts = (_names(value, f"{path}.{name}" if path else name) for name, value in fields.items())
            return frozenset(chain.from_iterable(parts))
        case _:
            return frozenset({path})
