"""Differences between two tables: which rows are lost, which are duplicated, and which have other values."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from cdk.base.values import FieldValue, canonical, from_json
from cdk.rest import path as value_at

Key: TypeAlias = Sequence[Sequence[str]]
"""The paths of the fields of a primary key; empty if there is no key."""

Row: TypeAlias = Mapping[str, FieldValue]

_Identity: TypeAlias = Callable[[Row], str | None]
"""Returns what identifies a row; None if nothing does."""

_SHOWN = 100
"""The most characters of a value in a message."""


class Difference(Struct, frozen=True):
    """How a table's rows differ from the expected ones.

    expected: the number of expected rows. lost: expected rows that the table does not have, as JSON texts. duplicated:
    rows beyond the expected ones. changed: pairs of a row as expected and as it is now, which are neither.
    """

    expected: int
    lost: Counter[str]
    duplicated: Counter[str]
    changed: Sequence[tuple[Row, Row]]

    def __iter__(self) -> Iterator[str]:
        """Yield a sentence for each kind of difference."""
        for what, rest in (("lost", self.lost), ("duplicated", self.duplicated)):
            if rest:
                yield f"{rest.total()} of {self.expected} rows {what}, such as {min(rest)[:200]}"
        if self.changed:
            before, now = self.changed[0]
            names = ", ".join(sorted({name for pair in self.changed for name in _changed_fields(*pair)}))
            shown = ", ".join(
                f"{name} was {_text(before, name)}, is {_text(now, name)}" for name in _changed_fields(before, now)
            )
            yield (
                f"{len(self.changed)} of {self.expected} rows changed, in {names}: {shown}; what has another value in "
                "each read, such as its time, cannot be compared: leave it out of the records (each row has "
                "`_airbyte_extracted_at`), or name the other streams with --stream"
            )


def difference(before: Counter[str], after: Counter[str], key: Key) -> Difference:
    """Compare rows, as JSON texts, with expected ones.

    Rows with the same key are the same row. Without a key, or if no other row has it, two rows are the same if they
    differ only in fields whose values occur in no expected row. Times and random values are such values; the values of
    a duplicated record are not.
    """
    lost, duplicated = before - after, after - before
    changed: list[tuple[Row, Row]] = []
    if lost and duplicated:
        changed += _paired(lost, duplicated, _by_key(key))
        changed += _paired(lost, duplicated, _by_known_values(before, +duplicated))
    return Difference(before.total(), +lost, +duplicated, changed)


def _paired(lost: Counter[str], duplicated: Counter[str], identity: _Identity) -> Iterator[tuple[Row, Row]]:
    """Remove the rows that are the same from both counters, and yield them in pairs."""
    missing = defaultdict[str, list[str]](list)
    for text in sorted(lost.elements(), reverse=True):
        if (name := identity(_row(text))) is not None:
            missing[name].append(text)
    for text in sorted(duplicated.elements()):
        name = identity(_row(text))
        if name is not None and (rows := missing[name]):
            before = rows.pop()
            lost[before] -= 1
            duplicated[text] -= 1
            yield _row(before), _row(text)


def _by_key(key: Key) -> _Identity:
    def identity(row: Row) -> str | None:
        values = [value_at(*path)(row) for path in key]
        return None if None in values or not values else canonical(values)

    return identity


def _by_known_values(before: Collection[str], duplicated: Collection[str]) -> _Identity:
    """Identify a row by its fields without those whose values occur in no expected row."""
    known, now = _values(before), _values(duplicated)
    fresh = {name for name, values in now.items() if not values & known[name]}

    def identity(row: Row) -> str | None:
        rest = {name: value for name, value in row.items() if name not in fresh}
        return canonical(rest) if fresh and rest else None

    return identity


def _values(texts: Collection[str]) -> Mapping[str, set[str]]:
    values = defaultdict[str, set[str]](set)
    for text in texts:
        for name, value in _row(text).items():
            values[name].add(canonical(value))
    return values


def _row(text: str) -> Row:
    row = from_json(text.encode())
    assert isinstance(row, Mapping)
    return row


def _changed_fields(before: Row, now: Row) -> Sequence[str]:
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def _text(row: Row, name: str) -> str:
    return canonical(row.get(name))[:_SHOWN]
