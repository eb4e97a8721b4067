"""Entity sets: which ids a source had, scope by scope, and what is still open about them. Pure.

    {"scopes": {"": {"ids": {"urn:table:1": 1, "urn:table:2": 0}}}}

One number for each id, so that what changes is small:

| number | what is known | seen in a run | missing from a complete run |
|---|---|---|---|
| `1`, PRESENT | the source has it, the sink shows it | stays | is removed, or missed for the first time |
| -1, -2, ... | missed by so many complete runs | revived | is removed, or missed once more |
| `0`, LEAVING | its removal was begun, and not confirmed | revived | removed again |
| `2`, UNSURE | it was seen, and the sink has not confirmed that it shows it | revived | as `1` |

An id leaves the set when the sink has confirmed its removal. Reviving what was never removed changes nothing, so
whatever is not PRESENT is revived.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from cdk.base.errors import BadState
from cdk.base.values import JsonValue
from cdk.state.log.slot_value import Kind

ENTITIES = Kind("cdk/entity-set")
"""The kind of `entities:` slots."""

PRESENT, LEAVING, UNSURE = 1, 0, 2


@dataclass(frozen=True)
class Compared:
    """A scope of this run against what is known of it."""

    previous: int
    """Known ids that are not leaving."""
    missing: tuple[str, ...]
    """Ids to remove, in order."""
    retried: tuple[str, ...]
    """Ids whose removal was begun before."""
    revived: tuple[str, ...]
    """Ids seen that the sink may have removed, in order."""
    protected: int
    """Ids that are missing and may not be removed."""
    ids: Mapping[str, int]
    """What is to be remembered before the sink is asked."""


def read_sets(value: JsonValue, path: str) -> dict[str, dict[str, int]]:
    """Scope -> id -> number; empty for None. Raises BadState naming the place of what means nothing here."""
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
    """The value of a slot, as `read_sets` reads it."""
    return {"scopes": {scope: {"ids": ids} for scope, ids in sets.items()}}


def missed(number: int, grace: int) -> int:
    """What becomes of an id that is missing from a complete run. grace: how many it may be missing from."""
    if number == LEAVING:
        return LEAVING
    runs = max(-number, 0) + 1
    return LEAVING if runs > grace else -runs


def met(number: int | None, *, first: bool) -> int:
    """What becomes of an id that is seen. first: nothing was known before, so nothing can have been removed."""
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
    """A scope that was read completely. comparable: the known ids that this run may compare itself with."""
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
    """What is to be remembered of a scope where nothing may be removed: what was known, and what was seen."""
    return {**known, **{id: met(known.get(id), first=first) for id in current}}
