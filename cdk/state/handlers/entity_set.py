"""Entity sets: the ids that a source had, per scope, and the pending operations on them. Pure.

    {"scopes": {"": {"ids": {"urn:table:1": 1, "urn:table:2": 0}}}}

Each id has one number, so that changes stay small:

| number | meaning | seen in a run | missing from a complete run |
|---|---|---|---|
| `1`, PRESENT | the source has it, the sink shows it | stays | is removed, or counts as missed once |
| -1, -2, ... | missing from that many complete runs | is revived | is removed, or counts as missed once more |
| `0`, LEAVING | its removal was started, but not confirmed | is revived | is removed again |
| `2`, UNSURE | it was seen, but the sink has not confirmed that it shows it | is revived | as `1` |

An id leaves the set when the sink has confirmed its removal. Reviving an id that was never removed changes nothing, so
every seen id that is not PRESENT is revived.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from msgspec import Struct

from cdk.base.errors import BadState
from cdk.base.values import JsonValue
from cdk.state.log.slot_value import Kind

ENTITIES = Kind("cdk/entity-set")
"""Kind of the `entities:` slots."""

PRESENT, LEAVING, UNSURE = 1, 0, 2


class Compared(Struct, frozen=True):
    """The result of comparing a scope in this run with the known ids."""

    previous: int
    """Number of known ids that are not leaving."""
    missing: tuple[str, ...]
    """Ids to remove, sorted."""
    retried: tuple[str, ...]
    """Missing ids whose removal an earlier run started, sorted."""
    revived: tuple[str, ...]
    """Seen ids that the sink may have removed, sorted."""
    protected: int
    """Number of ids that are missing but may not be removed."""
    ids: Mapping[str, int]
    """The numbers to store before the sink is asked."""


def read_sets(value: JsonValue, path: str) -> dict[str, dict[str, int]]:
    """Parse a slot's value as scope -> id -> number; empty for None. Raises BadState naming the invalid part."""
    if value is None:
        return {}
    scopes = value.get("scopes") if isinstance(value, dict) else None
    if not isinstance(scopes, dict):
        raise BadState(path, value, "an object with `scopes`")
    sets = {}
    for scope, value_of_scope in scopes.items():
        ids = value_of_scope.get("ids") if isinstance(value_of_scope, dict) else None
        if not isinstance(ids, dict):
            raise BadState(f"{path} scopes[{scope!r}]", value_of_scope, "an object with `ids`")
        if any(type(number) is not int or number > UNSURE for number in ids.values()):
            wrong = next(id for id, number in ids.items() if type(number) is not int or number > UNSURE)
            raise BadState(f"{path} scopes[{scope!r}].ids[{wrong!r}]", ids[wrong], "1, 0, 2 or a negative number")
        sets[scope] = ids
    return sets


def write_sets(sets: Mapping[str, dict[str, int]]) -> JsonValue:
    """Return the value of a slot, the inverse of `read_sets`."""
    return {"scopes": {scope: {"ids": ids} for scope, ids in sets.items()}}


def missed(number: int, grace: int) -> int:
    """Return the new number of an id that is missing from a complete run. grace: how many such runs are tolerated."""
    if number == LEAVING:
        return LEAVING
    runs = max(-number, 0) + 1
    return LEAVING if runs > grace else -runs


def met(number: int | None, *, first: bool) -> int:
    """Return the new number of an id that was seen. first: no state existed, so nothing can have been removed."""
    return PRESENT if number == PRESENT or (first and number is None) else UNSURE


def compare(
    known: Mapping[str, int],
    current: AbstractSet[str],
    *,
    comparable: AbstractSet[str],
    first: bool = False,
    grace: int = 0,
    spared: Callable[[str], bool] = lambda _: False,
) -> Compared:
    """Compare a completely read scope with the known ids. comparable: known ids that this run may compare with."""
    ids = {id: met(known.get(id), first=first) for id in current}
    missing, retried = list[str](), list[str]()
    previous = protected = 0
    for id, number in known.items():
        compares = id in comparable and not spared(id)
        previous += compares and number != LEAVING
        if id in current:
            continue
        ids[id] = missed(number, grace) if compares else number
        protected += id in comparable and not compares
        if compares and ids[id] == LEAVING:
            (retried if number == LEAVING else missing).append(id)
    revived = sorted(id for id in current if ids[id] == UNSURE)
    return Compared(previous, tuple(sorted(missing)), tuple(sorted(retried)), tuple(revived), protected, ids)


def merged(known: Mapping[str, int], current: AbstractSet[str], *, first: bool = False) -> dict[str, int]:
    """Return the union of known and seen ids, to store for a scope in which nothing may be removed."""
    return {**known, **{id: met(known.get(id), first=first) for id in current}}
