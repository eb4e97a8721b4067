"""Expansion: each element of a list inside a record becomes a record."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from cdk.base.errors import DecodeError
from cdk.base.logs import logger
from cdk.base.values import FieldValue, Record, copied, json_kind
from cdk.rest.http.json_path import ANY, matches, path
from cdk.rest.records.extractor import PAGE, Records

_ORIGINAL = "original_record"
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Truncation:
    """How to know that a list was cut short, and where the whole of it comes from.

    where: path in the record to a value that is true if so. fetch: gives the whole list for a record; None where there
    is no way to get it: the elements at hand are then used, and a warning says so.
    """

    where: tuple[str, ...]
    fetch: Callable[[Record], Iterable[Record]] | None = None


@dataclass(frozen=True, slots=True)
class Expander:
    """Makes records of the elements of the lists at a path; `"*"` in it leads to several lists.

    An element that is no object becomes `{"value": element}`. Of the record around it, each may get: all fields but the
    list, below its own (merge_parent), single values (parent_fields: pairs of paths in that record and in the new
    one), or all of it as `original_record` (remain_original), whose inner values the records share.

    emit_parent: a record without such a list, or with an empty one, stays as it is instead of being left out.
    """

    where: tuple[str, ...]
    remain_original: bool = False
    emit_parent: bool = False
    merge_parent: bool = False
    parent_fields: Sequence[tuple[tuple[str, ...], tuple[str, ...]]] = ()
    truncation: Truncation | None = None
    _matches: Callable[[FieldValue], list[FieldValue]] = field(init=False, repr=False, compare=False)
    _warned: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_matches", matches(*self.where))

    def __call__(self, parents: Records) -> Iterator[Records]:
        """The records of the elements in `parents`, in pages. At least one page, maybe empty."""
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
        dress = self._dress(parent)
        empty = True
        for element in self._elements(parent):
            empty = False
            record = element if type(element) is dict else {"value": element}
            yield record if dress is None else dress(record)
        if empty and self.emit_parent:
            yield parent

    def _elements(self, parent: dict[str, FieldValue]) -> Iterable[FieldValue]:
        cut = self.truncation
        if cut is not None and path(*cut.where)(parent):
            if cut.fetch is not None:
                return cut.fetch(parent)
            if not self._warned:
                self._warned.append(True)
                logger.warning("%s: this list is cut short; only the records in it are read", " > ".join(self.where))
        return (element for elements in self._matches(parent) if type(elements) is list for element in elements)

    def _dress(self, parent: dict[str, FieldValue]) -> Callable[[dict[str, FieldValue]], dict[str, FieldValue]] | None:
        """The function that adds to a record what it gets of its parent."""
        if not (self.merge_parent or self.parent_fields or self.remain_original):
            return None
        rest = without(parent, self.where) if self.merge_parent else None
        fields = [(path(*source)(parent), target) for source, target in self.parent_fields]

        def dress(record: dict[str, FieldValue]) -> dict[str, FieldValue]:
            record = dict(record) if rest is None else {**copied(rest), **record}
            for value, target in fields:
                _put(record, target, copied(value))
            if self.remain_original:
                record[_ORIGINAL] = dict(parent)
            return record

        return dress


def without(value: FieldValue, where: tuple[str, ...]) -> FieldValue:
    """A copy of `value` without the lists at a path."""
    name, *rest = where
    if type(value) is dict:
        parts = ((key, _left_of(held, rest) if name in (key, ANY) else held) for key, held in value.items())
        return {key: held for key, held in parts if held is not _NOTHING}
    if type(value) is list:
        index = int(name) if name.isdecimal() else None
        elements = (_left_of(part, rest) if name == ANY or i == index else part for i, part in enumerate(value))
        return [part for part in elements if part is not _NOTHING]
    return value


def _left_of(value: FieldValue, rest: Sequence[str]) -> FieldValue:
    """What is left of a value on the path, which has `rest` behind it."""
    if rest:
        return without(value, tuple(rest))
    return _NOTHING if type(value) is list else value


def _put(record: dict[str, FieldValue], where: tuple[str, ...], value: FieldValue) -> None:
    *outer, last = where
    node: FieldValue = record
    for name in outer:
        # A copy of what is written into: it may still belong to the body.
        inner = node.get(name, {})
        if type(inner) is not dict:
            raise DecodeError(
                f"found {json_kind(inner)} at {name!r} of a record, expected an object, for a value of its parent; "
                f"choose another `record_path` than {' > '.join(where)}"
            )
        node[name] = node = dict(inner)
    node[last] = value
