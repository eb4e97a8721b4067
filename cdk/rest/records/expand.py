"""Expansion: turns each element of a list inside a record into a record."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from cdk.base.errors import DecodeError
from cdk.base.logs import FirstWarning
from cdk.base.values import FieldValue, Record, copied, json_kind
from cdk.rest.http.json_path import ANY, matches, path
from cdk.rest.records.extractor import PAGE, Records

_ORIGINAL = "original_record"
_NOTHING = object()


class Truncation(Struct, frozen=True):
    """How to detect that a list is truncated, and how to get the complete list.

    where: the path in the record of a value that is true if the list is truncated. fetch: returns the complete list for
    a record; None if there is no way to get it, so that the truncated list is used, with a warning.
    """

    where: tuple[str, ...]
    fetch: Callable[[Record], Iterable[Record]] | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expander:
    """Turns the elements of the lists at a path into records; `"*"` in the path leads to several lists.

    An element that is not an object becomes `{"value": element}`. Each may get from the record around it: all fields
    except the list, which its own fields override (merge_parent); single values (parent_fields: pairs of a path in that
    record and a path in the new one); or the whole record as `original_record` (remain_original), whose nested values
    the new records share.

    where: the path; empty to leave records as they are. emit_parent: whether a record with a missing or empty list is
    emitted unchanged instead of being dropped. Calling it raises DecodeError, when a path of parent_fields leads
    through a value that is not an object, and what `truncation.fetch` raises.
    """

    where: tuple[str, ...]
    remain_original: bool = False
    emit_parent: bool = False
    merge_parent: bool = False
    parent_fields: Sequence[tuple[tuple[str, ...], tuple[str, ...]]] = ()
    truncation: Truncation | None = None
    _matches: Callable[[FieldValue], list[FieldValue]] = field(init=False)
    _warn: FirstWarning = field(default_factory=FirstWarning, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_matches", matches(*self.where))

    def __call__(self, parents: Records) -> Iterator[Records]:
        """Yield the records of the elements in `parents`, in pages. Yields at least one page, which may be empty."""
        if not self.where:
            yield parents
            return
        page: Records = []
        for parent in parents:
            for record in self._expanded(parent):
                page.append(record)
                if len(page) == PAGE:
                    yield page
                    page = []
        yield page

    def _expanded(self, parent: dict[str, FieldValue]) -> Iterator[dict[str, FieldValue]]:
        rest = _without(parent, self.where) if self.merge_parent else {}
        fields = [(target, path(*source)(parent)) for source, target in self.parent_fields]
        gets_fields = bool(rest or fields or self.remain_original)
        empty = True
        for element in self._elements(parent):
            empty = False
            record = element if type(element) is dict else {"value": element}
            if gets_fields:
                record = {**copied(rest), **record}
                for target, value in fields:
                    _set_at(record, target, copied(value))
                if self.remain_original:
                    record[_ORIGINAL] = dict(parent)
            yield record
        if empty and self.emit_parent:
            yield parent

    def _elements(self, parent: dict[str, FieldValue]) -> Iterable[FieldValue]:
        truncation = self.truncation
        if truncation is not None and path(*truncation.where)(parent):
            if truncation.fetch is not None:
                return truncation.fetch(parent)
            self._warn(f"{' > '.join(self.where)}: this list is truncated; only the records in it are read")
        return (element for elements in self._matches(parent) if type(elements) is list for element in elements)


def _without(value: FieldValue, where: tuple[str, ...]) -> FieldValue:
    """Return a copy of `value` without the lists at a path."""
    name, *rest = where
    if type(value) is dict:
        parts = ((key, _remaining_value(held, rest) if name in (key, ANY) else held) for key, held in value.items())
        return {key: held for key, held in parts if held is not _NOTHING}
    if type(value) is list:
        index = int(name) if name.isdecimal() else None
        elements = (_remaining_value(part, rest) if name == ANY or i == index else part for i, part in enumerate(value))
        return [part for part in elements if part is not _NOTHING]
    return value


def _remaining_value(value: FieldValue, rest: Sequence[str]) -> FieldValue:
    """Return what remains of a value on the path when the lists at `rest`, the remaining path, are removed."""
    if rest:
        return _without(value, tuple(rest))
    return _NOTHING if type(value) is list else value


def _set_at(record: dict[str, FieldValue], where: tuple[str, ...], value: FieldValue) -> None:
    *outer, last = where
    node: FieldValue = record
    for name in outer:
        # Copied before writing to it, because it may still be shared with the body.
        inner = node.get(name, {})
        if type(inner) is not dict:
            raise DecodeError(
                f"found {json_kind(inner)} at {name!r} of a record, expected an object, for a value of its parent; "
                f"choose another `record_path` than {' > '.join(where)}"
            )
        node[name] = node = dict(inner)
    node[last] = value
