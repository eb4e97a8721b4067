"""Candidates: fields that may be the primary key or the cursor of a stream, judging by its first records."""

from collections.abc import Sequence

from cdk.authoring.drafts.keys import IDS
from cdk.authoring.drafts.names import CHANGED, CREATED, TIMES, words
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import FieldValue, Record

_SHORTEST_DATE = len("2024-01-01")


def key_candidates(records: Sequence[Record]) -> list[str]:
    """Return fields with a different value in each record, those with a key's name first; none for a single record."""
    unique = [
        name
        for name in _common_fields(records)
        if all(type(record[name]) in {str, int} for record in records)
        and len({record[name] for record in records}) == len(records)
        and not _is_date(name, records)
    ]
    return sorted(unique, key=_key_rank)


def cursor_candidates(records: Sequence[Record]) -> list[str]:
    """Return fields with a date in each record; names that suggest a change come first, then those of a creation."""
    return sorted((name for name in _common_fields(records) if _is_date(name, records)), key=_cursor_rank)


def _common_fields(records: Sequence[Record]) -> list[str]:
    """Return the fields that all records have; none for fewer than two records."""
    if len(records) < 2:  # noqa: PLR2004 - of one record, every field is unique
        return []
    return [name for name in records[0] if all(name in record for record in records)]


def _is_date(name: str, records: Sequence[Record]) -> bool:
    timely = bool(set(words(name)) & (CHANGED | CREATED | TIMES))
    return all(_date(record[name], timely=timely) for record in records)


def _date(value: FieldValue, *, timely: bool) -> bool:
    """Whether a value is an ISO 8601 date; a number counts as one if its field's name suggests a time."""
    if not isinstance(value, str):
        return timely and type(value) is int
    return len(value) >= _SHORTEST_DATE and not value.isdigit() and parse_timestamp(value, ()) is not None


def _key_rank(name: str) -> int:
    last = words(name)[-1:]
    return IDS.index(last[0]) if last and last[0] in IDS else len(IDS)


def _cursor_rank(name: str) -> int:
    own = set(words(name))
    return 0 if own & CHANGED else 1 if own & CREATED else 2
