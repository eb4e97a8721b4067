"""Names of APIs, compared by their words: `AccountSid`, `account_sid` and `account-sid` are the same."""

import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
PARAMETER = re.compile(r"\{([^{}]*)\}")
"""A parameter in a path."""

CHANGED = {"updated", "modified", "changed", "update", "modification", "edited"}
CREATED = {"created", "creation", "create"}
TIMES = {"date", "time", "timestamp", "datetime"}
"""Words in the names of dates: of the last change, of the creation, of any."""

_VERBS = frozenset({"filter", "list", "paginate", "query", "search"})
"""What paths end with that read a collection as a body says, though they are no GETs."""

_SUFFIX = re.compile(r"\.(?:json|xml)$")


def words(name: str) -> list[str]:
    """The words of a name, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


def plain(name: str) -> str:
    """A name without what is between its words."""
    return "".join(words(name))


def snake(name: str) -> str:
    """A name as streams and fields of configs have it."""
    return "_".join(words(name)) or "value"


def singular(name: str) -> list[str]:
    """The words of a name, the last without the ending of a plural."""
    *others, last = words(name) or [""]
    if last.endswith("ies"):
        return [*others, f"{last[:-3]}y"]
    if last.endswith(("sses", "xes", "ches", "shes")):
        return [*others, last[:-2]]
    return [*others, last[:-1] if last.endswith("s") and not last.endswith("ss") else last]


def first_of(names: Iterable[str], known: Iterable[str]) -> str | None:
    """The name that is the first of the `known` ones, which are plain."""
    by_plain: dict[str, str] = {}
    for name in names:
        by_plain.setdefault(plain(name), name)
    return next((by_plain[name] for name in known if name in by_plain), None)


def path_parameters(path: str) -> list[str]:
    """The parameters in a path, in order."""
    return PARAMETER.findall(path)


def shape(path: str) -> str:
    """A path as others write it, too: whatever its parameters are called, without slash and suffix at its end."""
    return PARAMETER.sub("{}", _SUFFIX.sub("", path.rstrip("/")))


def segments(path: str) -> list[str]:
    """The segments of a path without parameters, the last without its suffix."""
    return [part for part in _SUFFIX.sub("", path).split("/") if part and not PARAMETER.search(part)]


def without_verb(path: str) -> str:
    """A path without the verb at its end, such as `/search`; the path itself where it has none."""
    before, _, end = path.rpartition("/")
    return before if plain(end) in _VERBS and before else path


def resource(path: str) -> str:
    """What a path calls the records that it reads."""
    return "".join(segments(without_verb(path))[-1:])
