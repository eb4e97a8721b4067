"""Compare drafted manifests with manifests that are known to be right, stream by stream.

Streams belong together whose GETs have the same path. Compared is what the known manifest says and a description might
tell: what it leaves to code of its own, or does not have, is not counted.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import ChainableUndefined, Environment, TemplateError

from cdk.authoring.drafts.draft import LeftOut
from cdk.authoring.drafts.names import shape, snake
from cdk.base.values import JsonValue, as_list, as_object, as_string
from cdk.declarative.manifest import Manifest

_NAME = re.compile(r"\[\s*['\"]([^'\"]+)['\"]|get\(\s*['\"]([^'\"]+)['\"]|\.([A-Za-z_]\w*)(?!\w*\()")
_CURSOR = "CursorPagination"
_BY_URL = f"{_CURSOR} in the URL"
_VERSION = re.compile(r"v?\d[\d.-]*|api|rest")


class _Any(ChainableUndefined):
    """Whatever an expression finds in a config or a partition: a parameter of the path."""

    __slots__ = ()

    def __str__(self) -> str:
        return "{}"

    def __call__(self, *_: object, **__: object) -> "_Any":  # type: ignore[override]  # what is undefined cannot be called
        return self


_EXPRESSIONS = Environment(undefined=_Any, autoescape=False)  # noqa: S701 - paths, which no browser sees


@dataclass(frozen=True)
class Facts:
    """What a stream of a manifest says; None of what it does not say, or leaves to code of its own.

    path: with `{}` for each parameter, without what is the API's version.
    """

    name: str
    method: str
    path: str
    records: tuple[str, ...] | None
    key: tuple[str, ...] | None
    cursor: str | None
    since: str | None
    pages: str | None
    tokens: Sequence[tuple[str, ...]]
    parent: str | None
    logins: frozenset[str]


@dataclass
class Comparison:
    """What came of a comparison. right: how often each kind was; wrong: what was found and known, and the streams.

    unknown: streams of the known manifest that no GET of the description is.
    """

    right: Counter[str] = field(default_factory=Counter)
    wrong: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    def wrongs(self) -> Counter[str]:
        """How often each kind was wrong."""
        counted: Counter[str] = Counter()
        for (kind, _, _), streams in self.wrong.items():
            counted[kind] += len(streams)
        return counted

    def add(self, kind: str, found: object, known: object, stream: str) -> None:
        """Count what a stream has."""
        if found == known:
            self.right[kind] += 1
        else:
            self.wrong.setdefault((kind, _shown(found), _shown(known)), []).append(stream)


def compare(drafted: Path, left_out: Iterable[LeftOut], known: Path) -> Comparison:
    """Compare two files with manifests. left_out: the GETs that the draft has no stream for."""
    result = Comparison()
    ours = {each.path: each for each in facts(drafted)}
    reasons = {_without_version(each.path): each.reason for each in left_out}
    for stream in facts(known):
        if stream.method == "GET" and (mine := ours.get(stream.path)) is not None:
            result.right["stream"] += 1
            for kind, found, wanted in _pairs(mine, stream):
                result.add(kind, found, wanted, stream.name)
        elif stream.method == "GET" and stream.path in reasons:
            result.add("stream", f"left out: {reasons[stream.path]}", "a stream", stream.name)
        else:
            result.unknown.append(stream.name)
    return result


def _pairs(mine: Facts, known: Facts) -> Iterator[tuple[str, object, object]]:
    if known.logins:
        yield "login", mine.logins if not mine.logins <= known.logins else known.logins, known.logins
    for kind in ("records", "key", "cursor", "since", "pages", "parent"):
        found, wanted = getattr(mine, kind), getattr(known, kind)
        if kind == "pages" and _BY_URL in {found, wanted} and found and found.startswith(_CURSOR):
            found = wanted  # A URL of the next page is as good as its token.
        if wanted is not None:
            yield kind, found, wanted
    if known.tokens and mine.tokens and mine.pages == known.pages:
        yield "token", mine.tokens[0] if mine.tokens[0] not in known.tokens else known.tokens[0], known.tokens[0]


def facts(manifest: Path) -> Sequence[Facts]:
    """What the streams of a manifest say."""
    return [_facts(as_object(stream)) for stream in as_list(Manifest.load(manifest).resolved().get("streams"))]


def _facts(stream: Mapping[str, JsonValue]) -> Facts:
    retriever = as_object(stream.get("retriever"))
    requester, sync = as_object(retriever.get("requester")), as_object(stream.get("incremental_sync"))
    extractor = as_object(as_object(retriever.get("record_selector")).get("extractor"))
    paginator = as_object(retriever.get("paginator"))
    strategy, option = as_object(paginator.get("pagination_strategy")), as_object(sync.get("start_time_option"))
    is_filter = bool(option) and sync.get("type") == "DatetimeBasedCursor"
    parameters = as_object(extractor.get("$parameters"))
    path = [_rendered(part, parameters) for part in as_list(extractor.get("field_path"))]
    # What transformations add are the keys of parents, which drafts always have.
    changes = [as_object(each) for each in as_list(stream.get("transformations"))]
    fields = [as_object(field) for each in changes for field in as_list(each.get("fields"))]
    added = {as_string(next(iter(as_list(field.get("path"))), None)) for field in fields}
    return Facts(
        as_string(stream.get("name")) or as_string(as_object(stream.get("$parameters")).get("name")),
        as_string(requester.get("http_method") or "GET").upper(),
        _path(requester),
        tuple(part for part in path if part) if extractor.get("type") == "DpathExtractor" else None,
        tuple(each for each in map(str, _flat(stream.get("primary_key"))) if each not in added) or None,
        as_string(sync.get("cursor_field")) or None if is_filter else None,
        _rendered(option.get("field_name"), parameters) or None if is_filter else None,
        _pages(strategy, as_object(paginator.get("page_token_option"))),
        [*_tokens(as_string(strategy.get("cursor_value")))] if strategy.get("type") == _CURSOR else [],
        _parent(retriever.get("partition_router")),
        frozenset(_logins(as_object(requester.get("authenticator")))),
    )


def _path(requester: Mapping[str, JsonValue]) -> str:
    base = requester.get("url") or requester.get("url_base")
    parameters = as_object(requester.get("$parameters"))
    ends = [_rendered(part, parameters) for part in (base, requester.get("path")) if part]
    url = "/".join([ends[0].rstrip("/"), *(end.lstrip("/") for end in ends[1:])]) if ends else ""
    return _without_version(url.partition("://")[2].partition("/")[2] if "://" in url else url.removeprefix("{}"))


def _without_version(path: str) -> str:
    """A path as two manifests may both write it, with `{}` for each parameter."""
    parts = shape(path).lower().strip("/").split("/")
    while len(parts) > 1 and _VERSION.fullmatch(parts[0]):
        del parts[0]
    return "/".join(parts)


def _pages(strategy: Mapping[str, JsonValue], option: Mapping[str, JsonValue]) -> str | None:
    kind = as_string(strategy.get("type"))
    if not kind or kind.startswith("Custom"):
        return None
    where = as_string(option.get("field_name"))
    return f"{kind} in {where}" if where else f"{kind} in the URL"


def _parent(router: JsonValue) -> str | None:
    """The path and the key of the parent, where there is one."""
    routers = [as_object(each) for each in (as_list(router) or [router])]
    parents = [as_object(each) for one in routers for each in as_list(one.get("parent_stream_configs"))]
    if len(parents) != 1:
        return None
    stream = as_object(parents[0].get("stream"))
    path = _path(as_object(as_object(stream.get("retriever")).get("requester")))
    return f"{path} by {as_string(parents[0].get('parent_key'))}"


def _logins(authenticator: Mapping[str, JsonValue]) -> Iterator[str]:
    if several := as_object(authenticator.get("authenticators")):
        for each in several.values():
            yield from _logins(as_object(each))
    elif (kind := as_string(authenticator.get("type"))) and not kind.startswith("Custom"):
        where = as_string(as_object(authenticator.get("inject_into")).get("field_name"))
        header = where or as_string(authenticator.get("header"))
        yield f"{kind} {header}" if kind == "ApiKeyAuthenticator" else kind


def _tokens(expression: str) -> Iterator[tuple[str, ...]]:
    """What an expression reads of a response, for each of its alternatives."""
    for part in re.split(r"\s(?:or|if)\s", expression.replace(" or {}", "")):
        found = [next(filter(None, groups)) for groups in _NAME.findall(part)]
        if names := tuple(name for name in found if name not in {"get", "response", "headers", "last_record"}):
            yield names


def _flat(value: JsonValue) -> Iterator[JsonValue]:
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, list):
            yield from _flat(part)
        elif part:
            yield part


def _rendered(value: JsonValue, parameters: Mapping[str, JsonValue]) -> str:
    text = "" if value is None else str(value)
    try:
        return _EXPRESSIONS.from_string(text).render(parameters=parameters)
    except TemplateError:
        return snake(text)


def _shown(value: object) -> str:
    match value:
        case None:
            return "none"
        case tuple() | frozenset():
            return " > ".join(sorted(value) if isinstance(value, frozenset) else value) or "the body"
        case _:
            return str(value)


def lines(comparison: Comparison) -> Iterator[str]:
    """What is printed of a comparison."""
    for (kind, found, known), streams in sorted(comparison.wrong.items(), key=lambda each: -len(each[1])):
        yield f"  differs: {len(streams)} x {kind}: found {found}, known {known} ({', '.join(streams)})"
    if comparison.unknown:
        yield f"  known, and no GET of the description: {', '.join(comparison.unknown)}"


def rates(comparisons: Iterable[Comparison]) -> Iterator[str]:
    """How often each kind of guess differs from what is known."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for each in comparisons:
        right += each.right
        wrong += each.wrongs()
    for kind in sorted(right | wrong):
        yield f"differs: {wrong[kind]} of {right[kind] + wrong[kind]} x {kind}"
