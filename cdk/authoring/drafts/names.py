"""Names of APIs, compared by their words: `AccountSid`, `account_sid` and `account-sid` are the same.

By names, together with contents and places, it is judged which lists in a body hold its records.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote

from cdk.base.first_use import lazy_pattern
from cdk.base.values import JsonValue, as_object, json_kind

_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
PARAMETER = lazy_pattern(r"\{([^{}]*)\}")
"""A parameter in a path, such as `{id}`."""

CHANGED = {"updated", "modified", "changed", "update", "modification", "edited"}
CREATED = {"created", "creation", "create"}
TIMES = {"date", "time", "timestamp", "datetime"}
"""Words in the names of date fields: of the last change, of the creation, of any date."""

RECORD_LISTS = (
    "data", "items", "results", "records", "entries", "values", "value", "rows", "list", "objects", "resources",
    "elements", "content", "hits", "result", "response", "embedded", "collection", "payload", "record", "item", "row",
    "entry", "features", "documents", "docs", "nodes", "edges", "members",
)  # fmt: skip
"""Usual names of lists of records that are not named after their records, the likeliest first."""

COMPANIONS = frozenset({
    "links", "link", "errors", "error", "warnings", "warning", "messages", "facets", "facet", "columns", "fields",
    "schema", "headers", "sort", "sorts", "filters", "filter", "aggregations", "breadcrumbs", "meta", "metadata",
    "units", "crs", "bbox", "coordinates", "conformsto", "included",
})  # fmt: skip
"""Names, or last words of names, of lists that accompany the records."""

_VERBS = frozenset({"filter", "list", "paginate", "query", "search"})
"""The last segments of paths that read a collection by a request body, with a POST instead of a GET."""

_SUFFIX = lazy_pattern(r"\.(?:json|xml)$")


def words(name: str) -> list[str]:
    """Return the words of a name, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


def plain(name: str) -> str:
    """Return a name in lower case without the characters between its words."""
    return "".join(words(name))


def snake(name: str) -> str:
    """Return a name in snake case, as streams and config fields have it."""
    return "_".join(words(name)) or "value"


def singular(name: str) -> list[str]:
    """Return the words of a name, the last one in the singular."""
    *others, last = words(name) or [""]
    if last.endswith("ies"):
        return [*others, f"{last[:-3]}y"]
    if last.endswith(("sses", "xes", "ches", "shes")):
        return [*others, last[:-2]]
    return [*others, last[:-1] if last.endswith("s") and not last.endswith("ss") else last]


def first_of(names: Iterable[str], known: Iterable[str]) -> str | None:
    """Return the name that comes first among the `known` ones, which are plain; None if there is none."""
    by_plain: dict[str, str] = {}
    for name in names:
        by_plain.setdefault(plain(name), name)
    return next((by_plain[name] for name in known if name in by_plain), None)


def path_parameters(path: str) -> list[str]:
    """Return the names of the parameters in a path, in order."""
    return PARAMETER.findall(path)


def shape(path: str) -> str:
    """Return a path in comparable form: without parameter names, final slash and suffix."""
    return PARAMETER.sub("{}", _SUFFIX.sub("", path.rstrip("/")))


def segments(path: str) -> list[str]:
    """Return the segments of a path that have no parameters, the last one without its suffix."""
    return [part for part in _SUFFIX.sub("", path).split("/") if part and not PARAMETER.search(part)]


def without_verb(path: str) -> str:
    """Return a path without the verb at its end, such as `/search`; the path itself if it has none."""
    before, _, end = path.rpartition("/")
    return before if plain(end) in _VERBS and before else path


def resource(path: str) -> str:
    """Return a path's name for the records that it reads."""
    return "".join(segments(without_verb(path))[-1:])


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
