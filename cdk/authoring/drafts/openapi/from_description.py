"""Drafts a manifest from a description: a stream for each collection that it describes."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from cdk.authoring.drafts.auth import Login, login
from cdk.authoring.drafts.cursors import guess_cursor
from cdk.authoring.drafts.draft import (
    ConfigFields,
    Draft,
    Guess,
    LeftOut,
    Parameter,
    StreamDraft,
    examples_of,
    stream_component,
)
from cdk.authoring.drafts.keys import common_key, primary_key
from cdk.authoring.drafts.manifest_text import in_json, written
from cdk.authoring.drafts.names import path_parameters, resource, segments, shape, snake
from cdk.authoring.drafts.openapi.description import Description, Operation
from cdk.authoring.drafts.openapi.paths import Parent, ParentKey, Paths
from cdk.authoring.drafts.openapi.responses import RecordList, record_list
from cdk.authoring.drafts.openapi.schemas import Schemas
from cdk.authoring.drafts.pagination import PageFacts, PaginatorGuess, as_most_streams, guess_paginator
from cdk.base.errors import ConfigError
from cdk.base.values import JsonObject, JsonValue, as_list, as_object, as_string, canonical
from cdk.testing.simulator.examples import example_of

_DOCS = "look in the API's documentation"
_NOT_READ = "only files of the description's folder are read, and it refers to"
_SERVER = "https://api.example.com"
_HOST = re.compile(r"[^/]*//[^/]*")
_EXAMPLE: JsonObject = {"id": "1"}
"""The record of an example whose schema has no fields."""

_IGNORED_HEADERS = {"authorization", "accept", "content-type"}
"""Header parameters whose definitions OpenAPI ignores, in lower case."""


class _Candidate(Struct, frozen=True):
    """A path that a stream reads. name: the stream's. fields: the schemas of the records' fields, by name."""

    name: str
    operation: Operation
    collection: RecordList
    fields: Mapping[str, Mapping[str, JsonValue]]

    @property
    def kinds(self) -> Mapping[str, str]:
        """The types of the fields, by name."""
        return {name: as_string(schema.get("type")) for name, schema in self.fields.items()}

    @property
    def resource(self) -> str:
        """The last segment of the path, which names the records."""
        return (segments(self.operation.resource_path) or [""])[-1]


def draft_of(description: Description) -> Draft:
    """Return the draft of a manifest for a description. Raises ConfigError: when it describes no collection."""
    schemas = Schemas(description)
    operations = {operation.path: operation for operation in description.operations()}
    collections, left_out = _collections(operations, schemas)
    if not collections:
        reasons = Counter(each.reason for each in left_out).most_common(3)
        listed = (
            "; ".join(f"{count} times: {reason}" for reason, count in reasons)
            or "there is no GET and no POST that searches"
        )
        unread = f"; {_NOT_READ} {', '.join(outside)}" if (outside := description.not_read()) else ""
        why = f"no operation in it returns a collection of records: {listed}{unread}"
        raise ConfigError(why, path=description.name)
    candidates = [
        _Candidate(name, operations[path], collections[path], schemas.fields(collections[path].items))
        for path, name in _names({path: operations[path].resource_path for path in collections}).items()
    ]
    return _Drafting(description, schemas, operations, candidates).draft(left_out)


def _collections(
    operations: Mapping[str, Operation], schemas: Schemas
) -> tuple[Mapping[str, RecordList], Sequence[LeftOut]]:
    """Return the lists of records that streams read, by path, and the paths that no stream reads."""
    left_out: list[LeftOut] = []
    collections: dict[str, RecordList] = {}
    for path, operation in operations.items():
        match _why_not(operation) or record_list(operation, schemas):
            case str(reason):
                left_out.append(LeftOut(path, reason))
            case RecordList() as records:
                collections[path] = records
    shapes = {shape(path) for path in collections}
    for path in [path for path in collections if shape(path).removesuffix("/{}") in shapes - {shape(path)}]:
        del collections[path]
        left_out.append(LeftOut(path, "it reads records of another stream by their key"))
    read: dict[str, str] = {}
    for path in sorted(collections, key=lambda path: operations[path].method):
        first = read.setdefault(shape(operations[path].resource_path), path)
        if first != path and operations[path].method != "GET":
            del collections[path]
            left_out.append(LeftOut(path, f"it reads the records of `{first}`"))
    return collections, left_out


def _why_not(operation: Operation) -> str:
    """Return why no stream reads an operation, whatever it returns; empty if one may."""
    if operation.deprecated:
        return "it is deprecated"
    return "its path contains `{{` or `{%`" if "{{" in operation.path or "{%" in operation.path else ""


def _names(paths: Mapping[str, str]) -> dict[str, str]:
    """Name the stream of each path by its segments after those common to all, so that new paths rename no stream.

    paths: each with the path of its records.
    """
    parts = {path: [snake(part) for part in segments(records)] for path, records in paths.items()}
    shared = 0
    longest = max(1, min((len(each) for each in parts.values()), default=1))
    while shared < longest - 1 and len({each[shared] for each in parts.values()}) == 1:
        shared += 1
    named: dict[str, str] = {}
    for path, each in parts.items():
        name = "_".join(each[shared:]) or "records"
        if name in named.values():
            name = "_by_".join([name, *map(snake, path_parameters(path)[-1:])])
        number = 1
        while name in named.values():
            number += 1
            name = f"{name.rstrip('0123456789')}{number}"
        named[path] = name
    return named


def _with_parents(schema: JsonObject, parents: Mapping[str, ParentKey | None]) -> JsonObject:
    """Return the schema of records that also have the parents' keys."""
    added: JsonObject = {name: {"type": each.kind} if each.kind else {} for name, each in parents.items() if each}
    return {**schema, "properties": {**added, **as_object(schema.get("properties"))}} if added else schema


def _added(parents: Mapping[str, ParentKey | None]) -> JsonValue:
    """Return the transformations that add the parents' keys to records; None if the records have them."""
    fields: list[JsonValue] = [
        {
            "path": [name],
            "value": each.value,
            **({"value_type": each.kind} if each.kind in {"string", "integer"} else {}),
        }
        for name, each in parents.items()
        if each is not None
    ]
    return [{"type": "AddFields", "fields": fields}] if fields else None


class _Drafting:
    """The draft of one description."""

    def __init__(
        self,
        description: Description,
        schemas: Schemas,
        operations: Mapping[str, Operation],
        candidates: Sequence[_Candidate],
    ) -> None:
        self._description, self._schemas, self._operations = description, schemas, operations
        self._candidates, self._config = candidates, ConfigFields()
        self._details = {shape(path): path for path in operations if shape(path).endswith("{}")}
        parents = [Parent(each.operation, each.name, each.resource, each.kinds) for each in candidates]
        self._paths = Paths(parents, self._config)
        self._own_key = common_key([each.kinds for each in candidates], [each.resource for each in candidates])

    def draft(self, left_out: Sequence[LeftOut]) -> Draft:
        requirements = [each.operation.security for each in self._candidates]
        login_ = login(
            self._description.security_schemes(),
            requirements,
            self._config,
            self._description.absolute,
            mentions_bearer=self._description.mentions("Bearer "),
        )
        bases = Counter(self._base(each.operation) for each in self._candidates)
        (base, plain_base), _ = bases.most_common(1)[0]
        pages = {each.name: self._pages(each) for each in self._candidates}
        pagings = {name: guess_paginator(each) for name, each in pages.items()}
        streams = []
        for each in self._candidates:
            own = pages[each.name]
            others = [
                paging for name, paging in pagings.items() if pages[name].default_location == own.default_location
            ]
            streams.append(self._stream(each, base, login_, as_most_streams(pagings[each.name], own, others)))
        guesses = [*login_.guesses]
        if "{{" in base:
            guesses.append(Guess(f"the server is {base}", f"variables of servers are config; {plain_base}", _DOCS))
        if outside := self._description.not_read():
            why = f"{_NOT_READ} {', '.join(outside)}"
            guesses.append(
                Guess("schemas without what others say", why, "save them there, and refer to them by a path")
            )
        requester: JsonObject = {"type": "HttpRequester", "url_base": base, **login_.requester}
        title = f"{self._description.title} {self._description.version}".strip()
        return Draft(title, requester, streams, self._config, guesses, left_out, login_.examples)

    def _base(self, operation: Operation) -> tuple[str, str]:
        """Return the base URL of an operation, with expressions for server variables, and with their defaults."""
        server = as_object(next(iter(self._description.servers(operation)), None))
        written = actual = self._description.absolute(as_string(server.get("url")) or "/").rstrip("/")
        for name, value in as_object(server.get("variables")).items():
            raw = as_object(value).get("default")
            default = "" if raw is None else str(raw)
            schema: JsonObject = {"type": "string", "title": f"{name} of the server", "default": default}
            if choices := as_list(as_object(value).get("enum")):
                schema["enum"] = [str(each) for each in choices]
            written = written.replace(f"{{{name}}}", self._config.add(snake(name), schema))
            actual = actual.replace(f"{{{name}}}", default)
        if not _has_valid_host(actual):
            written, actual = (_HOST.sub("", each, count=1) for each in (written, actual))
        if "://" not in actual:
            title = f"server, such as {_SERVER}"
            server_field: JsonObject = {"type": "string", "title": title, "examples": [_SERVER]}
            begin = self._config.add("server", server_field, _SERVER)
            return f"{begin}{written}", actual
        return written, actual

    def _stream(self, candidate: _Candidate, base: str, login_: Login, pages: PaginatorGuess) -> StreamDraft:
        operation, name = candidate.operation, candidate.name
        bound = self._paths.bound(operation)
        key = self._primary_key(candidate)
        query = operation.located("query")
        rest = {each: parameter for each, parameter in query.items() if each not in pages.handled}
        cursor = guess_cursor(rest, candidate.fields, self._config, name)
        parents = bound.keys(candidate.kinds)
        keys = [] if key is None else list(dict.fromkeys([*parents, key[0]]))
        guesses = [*self._guesses(candidate, keys, "" if key is None else key[1]), *bound.guesses]
        guesses += [each for each in (pages.guess, None if cursor is None else cursor.guess) if each is not None]
        beside = {} if cursor is None else cursor.always
        used = {*pages.handled, *beside, *(() if cursor is None else cursor.parameters)}
        sent = self._sent(operation)
        always = {each: value for each, value in pages.always.items() if each not in sent}
        parameters: JsonObject = {**as_object(login_.requester.get("request_parameters")), **always, **beside}
        parameters |= self._required(query, used)
        body: JsonObject = {each: int(value) for each, value in pages.always.items() if each in sent}
        body |= self._required(sent, used)
        headers: JsonObject = {**as_object(login_.requester.get("request_headers"))}
        headers |= self._required(operation.located("header"), set())
        requester: JsonObject = {"$ref": "#/definitions/requester", "path": bound.path}
        if (own := self._base(operation)[0]) != base:
            requester["url_base"] = own
        if parameters:
            requester["request_parameters"] = parameters
        if headers:
            requester["request_headers"] = headers
        if operation.method != "GET":
            requester["http_method"] = operation.method
        if operation.body is not None and (body or "body_json" not in canonical(pages.component)):
            value: JsonValue = body or written("{}", in_json)
            requester["request_body"] = {"type": "RequestBodyJsonObject", "value": value}
        schema = self._schemas.record(candidate.collection.items)
        component = stream_component(
            name,
            requester,
            candidate.collection.path,
            schema=_with_parents(schema, parents),
            key=keys[0] if len(keys) == 1 else keys or None,
            cursor=None if cursor is None else cursor.component,
            paginator=pages.component,
            router=bound.router,
            transformations=_added(parents),
        )
        url_path = urlsplit(self._base(operation)[1]).path.rstrip("/") + bound.pattern
        examples = examples_of(
            url_path, candidate.collection.path, example_of(schema) or _EXAMPLE, pages.probe, operation.method
        )
        return StreamDraft(name, component, guesses, examples)

    def _primary_key(self, candidate: _Candidate) -> tuple[str, str] | None:
        detail = self._details.get(f"{shape(candidate.operation.resource_path)}/{{}}")
        parameter = None
        if detail is not None:
            name = path_parameters(detail)[-1]
            known = self._operations[detail].located("path").get(name)
            parameter = name, "" if known is None else as_string(known.schema.get("type"))
        name = resource(candidate.operation.path)
        return primary_key(candidate.kinds, name, parameter, self._own_key)

    def _pages(self, candidate: _Candidate) -> PageFacts:
        operation, records, key = candidate.operation, candidate.collection.path, self._primary_key(candidate)
        leaves = {path: schema for path, schema in self._schemas.leaves(operation.schema) if records}
        parameters = {**self._sent(operation), **operation.located("query")}
        key_field, headers = None if key is None else key[0], dict.fromkeys(operation.headers, "")
        default_location = "query" if operation.body is None else "body_json"
        return PageFacts(
            candidate.name, parameters, leaves, headers, operation.text, key_field, not records, default_location
        )

    def _sent(self, operation: Operation) -> Mapping[str, Parameter]:
        """Return the fields of the JSON that an operation sends."""
        required = as_list(self._schemas.flat(operation.body).get("required"))
        return {
            name: Parameter(name, "body_json", name in required, field, as_string(field.get("description")))
            for name, field in self._schemas.fields(operation.body).items()
        }

    def _guesses(self, candidate: _Candidate, keys: Sequence[str], why: str) -> Sequence[Guess]:
        where = " > ".join(candidate.collection.path)
        preview = f"`spark-cdk preview {candidate.name}`"
        guesses = [Guess(f"records at `{where}`", candidate.collection.why, preview)] if where else []
        if not keys:
            return [*guesses, Guess("no primary key", "no field is named like one", _DOCS)]
        why = why if len(keys) == 1 else f"{why}, and others may be below another parent"
        return [*guesses, Guess(f"primary key `{'`, `'.join(keys)}`", why, _DOCS)]

    def _required(self, parameters: Mapping[str, Parameter], used: set[str]) -> JsonObject:
        """Return the required parameters, with values from the config, or with their only possible value."""
        sent: JsonObject = {}
        for name, each in parameters.items():
            if not each.required or name in used or name.lower() in _IGNORED_HEADERS:
                continue
            choices = as_list(each.schema.get("enum"))
            sent[name] = str(choices[0]) if len(choices) == 1 else self._paths.field(each)
        return sent


def _has_valid_host(url: str) -> bool:
    """Whether the host of a URL, if it has one, is not a placeholder such as `[tenant].example.com`."""
    try:
        return not {*"<{"} & {*urlsplit(url).netloc}
    except ValueError:
        return False
