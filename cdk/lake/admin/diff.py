"""Differences between two states of a stream for display: cursor by cursor, without the kit's internal entries."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from cdk.base.values import JsonValue, Stored, canonical
from cdk.base.wording import cut
from cdk.state.stored_positions import PartitionEntries

_LONGEST = 80


class Move(Struct, frozen=True):
    """A value that differs between two states.

    where: its name, prefixed with parent and partition. before, after: None: the value is missing.
    """

    where: str
    before: JsonValue
    after: JsonValue

    def __str__(self) -> str:
        return f"{self.where}: {shown(self.before)} → {shown(self.after)}"


def moves(before: Stored, after: Stored) -> Iterator[Move]:
    """Yield the differences between two wire states, in their order; lazily if there are many partitions.

    If only one of them has many partitions, its order is used.
    """
    match before, after:
        case {"states": PartitionEntries() as olds, **old_rest}, {"states": PartitionEntries() as news, **new_rest}:
            yield from moves(old_rest, new_rest)
            for pair in news.moved(olds):
                old_entry, new_entry = ([entry] if entry else [] for entry in pair)
                yield from moves(old_entry, new_entry)
        case _, {"states": PartitionEntries()}:
            rest = dict(values(before))
            yield from _moved((where, rest.pop(where, None), value) for where, value in values(after))
            yield from _moved((where, value, None) for where, value in rest.items())
        case {"states": PartitionEntries()}, _:
            rest = dict(values(after))
            yield from _moved((where, value, rest.pop(where, None)) for where, value in values(before))
            yield from _moved((where, None, value) for where, value in rest.items())
        case _:
            old, new = dict(values(before)), dict(values(after))
            yield from _moved((where, old.get(where), new.get(where)) for where in dict.fromkeys([*old, *new]))


def _moved(pairs: Iterable[tuple[str, JsonValue, JsonValue]]) -> Iterator[Move]:
    return (Move(where, old, new) for where, old, new in pairs if canonical(old) != canonical(new))


def values(blob: JsonValue, prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Yield the cursor values and page tokens of a wire state, each with its name: `{"shop":"a"} updated_at`."""
    if isinstance(blob, list):
        yield from _of_partitions(blob, prefix)
    elif isinstance(blob, Mapping):
        for key, value in blob.items():
            yield from _entry(key, value, prefix)
    elif blob is not None:
        yield prefix or "state", blob


def _entry(key: str, value: JsonValue, prefix: str) -> Iterator[tuple[str, JsonValue]]:
    match key, value:
        case "states", list() | PartitionEntries():
            yield from _of_partitions(value, prefix)
        case "parent_state", Mapping():
            for name, parent in value.items():
                yield from values(parent, f"{prefix}parent {name} ")
        case "state", Mapping():
            yield from values(value, prefix)
        case "_cdk", Mapping():
            yield from _kit_entries(value, prefix)
        case "__ab_full_refresh_sync_complete", _:
            yield f"{prefix}read", "to the end"
        case "use_global_cursor", _:
            pass
        case _:
            yield f"{prefix}{key}", value


def _of_partitions(items: Iterable[JsonValue], prefix: str) -> Iterator[tuple[str, JsonValue]]:
    for item in items:
        if isinstance(item, Mapping):
            yield from values(item.get("cursor"), f"{prefix}{canonical(item.get('partition'))} ")


def _kit_entries(blob: Mapping[str, JsonValue], prefix: str) -> Iterator[tuple[str, JsonValue]]:
    """Yield how far an interrupted attempt has read, and its open windows. Digests of records are not for display."""
    slices = blob.get("slices")
    if slices and isinstance(slices, list):
        yield f"{prefix}read through", blob.get("through")
        yield f"{prefix}open windows", len(slices)


def shown(value: JsonValue) -> str:
    """Return a value in one line, shortened if it is long."""
    return "nothing" if value is None else cut(value if isinstance(value, str) else canonical(value), _LONGEST)
