"""Finds the lists in a body that may hold its records, judging by names, contents and places."""

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

from cdk.authoring.drafts.names import COMPANIONS, RECORD_LISTS, plain, singular, words
from cdk.base.values import JsonValue, as_object, json_kind

_DEEPEST = 4


def record_lists(body: JsonValue, path: str) -> Mapping[tuple[str, ...], Sequence[JsonValue]]:
    """Return the lists of a body that may hold its records, by path, the likeliest first.

    The order is: a list named like the end of the request's path, then a list with a usual name; among these, lists of
    objects before others, less deep ones before deeper ones, longer ones before shorter ones. Lists named like
    companions of records, such as `links`, are excluded, and so are all lists of an object whose id ends the path.
    """
    end = unquote(path.rsplit("/", 1)[-1].partition(".")[0])
    if isinstance(body, Mapping) and end and str(body.get("id")) == end:
        return {}
    lists, own = dict(_lists(body, ())), {plain(end), "".join(singular(end))} - {""}

    def kind(keys: tuple[str, ...]) -> int:
        """Rate a name, the likeliest lowest."""
        if not keys or {plain(keys[-1]), "".join(singular(keys[-1]))} & own:
            return 0
        name, last = plain(keys[-1]), "".join(words(keys[-1])[-1:])
        return 3 if {name, last} & COMPANIONS else 1 if name in RECORD_LISTS else 2

    def rank(keys: tuple[str, ...]) -> tuple[int, bool, int, int]:
        return kind(keys), bool(problem_of(lists[keys])), len(keys), -len(lists[keys])

    likely = [keys for keys, records in lists.items() if kind(keys) < (2 if problem_of(records) else 3)]
    return {keys: lists[keys] for keys in sorted(likely, key=rank)}


def problem_of(records: Sequence[JsonValue]) -> str:
    """Return why a list cannot hold records; empty if it can."""
    if not records:
        return "empty, expected records: send a request that returns some, without filters"
    if not as_object(records[0]):
        kind = json_kind(records[0])
        return f"a list whose first element is {kind}, expected objects: look for a parameter that requests these"
    return ""


def _lists(value: JsonValue, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Sequence[JsonValue]]]:
    if isinstance(value, list):
        yield keys, value
    elif isinstance(value, Mapping) and len(keys) < _DEEPEST:
        for name, inner in value.items():
            yield from _lists(inner, (*keys, name))
