"""Drafts a manifest from dlt's `RESTAPIConfig`: a stream for each resource, and a list of what is not carried over."""

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from cdk.authoring.drafts.auth import authenticator
from cdk.authoring.drafts.cursors import cursor_of, first_cursor_value
from cdk.authoring.drafts.draft import (
    ConfigFields,
    Draft,
    Example,
    Guess,
    LeftOut,
    StreamDraft,
    examples_of,
    expression,
    known_parameter,
    present,
    quoted,
    stream_component,
)
from cdk.authoring.drafts.imports.dlt_file import CODE, SECRET, SETTING
from cdk.authoring.drafts.imports.dlt_paging import paging_of
from cdk.authoring.drafts.manifest_text import Read, in_field, in_json, written
from cdk.authoring.drafts.names import PARAMETER, snake
from cdk.authoring.drafts.pagination import PageFacts, PaginatorGuess, guess_paginator
from cdk.base.errors import ConfigError
from cdk.base.secret_names import looks_secret
from cdk.base.values import JsonObject, JsonValue, as_list, as_object, as_string

_CLIENT = {"base_url", "headers", "auth", "paginator"}
_RESOURCE = {"name", "endpoint", "primary_key", "write_disposition", "include_from_parent", "selected"}
_ENDPOINT = {"path", "method", "params", "json", "paginator", "data_selector", "response_actions", "incremental"}
_CURSOR = {"type", "cursor_path", "initial_value", "start_param", "end_param"}
_PARENT = re.compile(r"resources\.(\w+)\.([\w.]+)")
_BOUND = re.compile(r"\{incremental\.(start_value|last_value|end_value)\}")
_DLT = "dlt's file says so"
_CODE = "is Python code, and only values can be carried over: write it as a component"
_REASONS = {
    "processing_steps": "filters and maps are Python: write them as `record_filter` and `transformations`",
    "columns": "the schema has the types: write them there",
    "table_name": "a table has the name of its stream: rename the stream",
    "max_table_nesting": "each record is stored as one row; no part of it becomes a table of its own",
    "end_value": "a read ends at the current time: set `end_datetime`",
    "lag": "set `lookback_window` of the cursor",
}
_MODES = {"append": "append", "replace": "overwrite", "merge": "append_dedup"}


class _Parent(Struct, frozen=True):
    """A field of a parent's records that a path contains. partition: the expression of its value."""

    placeholder: str
    stream: str
    field: str

    @property
    def partition(self) -> str:
        return f"stream_partition['{snake(self.placeholder)}']"


def draft_of_dlt(document: Mapping[str, JsonValue], name: str) -> Draft:
    """Return the draft of a config read by `read_dlt_config`.

    name: of its file. Raises ConfigError: without a resource.
    """
    return _Import(document).draft(name)


class _Import:
    """The import of one config: its draft so far."""

    def __init__(self, document: Mapping[str, JsonValue]) -> None:
        self._config, self._guesses, self._left_out = ConfigFields(), list[Guess](), list[LeftOut]()
        self._client, self._defaults = as_object(document["client"]), as_object(document.get("resource_defaults"))
        self._resources = as_list(document["resources"])
        self._base, self._needed = "", list[_Parent]()
        self._logins: Sequence[Example] = ()

    def draft(self, name: str) -> Draft:
        """Return the draft of the config's resources. Raises ConfigError: when there is none."""
        requester = self._requester()
        resources = [*self._named()]
        if not resources:
            raise ConfigError("none of its `resources` has a name, expected at least one", path=name)
        for resource in resources:
            self._needed += _parents(*_path_of(resource))
        streams = [self._stream(resource) for resource in resources]
        title = f"the dlt config {name}"
        return Draft(title, requester, streams, self._config, self._guesses, self._left_out, self._logins)

    def _named(self) -> Iterator[Mapping[str, JsonValue]]:
        """Yield the resources, completed by the defaults for all of them."""
        for each in self._resources:
            own = {"name": each} if isinstance(each, str) else as_object(each)
            if not as_string(own.get("name")):
                self._leave("resources", "found one without a name, such as a Python function: write it as a stream")
                continue
            endpoints = [
                {"path": e} if isinstance(e := each.get("endpoint"), str) else as_object(e)
                for each in (self._defaults, own)
            ]
            params = {**as_object(endpoints[0].get("params")), **as_object(endpoints[1].get("params"))}
            yield {**self._defaults, **own, "endpoint": {**endpoints[0], **endpoints[1], "params": params}}

    def _requester(self) -> JsonObject:
        """Return the requester that all streams share: URL, headers and authentication of the client."""
        self._leave_others("client", self._client, _CLIENT)
        url = self._client.get("base_url")
        self._base = urlsplit(url).path.rstrip("/") if isinstance(url, str) else ""
        base = url if isinstance(url, str) else self._text("base_url", url, "https://api.example.com")
        requester: JsonObject = {"type": "HttpRequester", "url_base": base.rstrip("/")}
        if headers := as_object(self._client.get("headers")):
            requester["request_headers"] = {key: self._text(key, value) for key, value in headers.items()}
        auth = self._client.get("auth")
        settings = {"type": auth} if isinstance(auth, str) else as_object(auth)
        match settings.get("type") or ("bearer" if "token" in settings else ""):
            case "bearer":
                scheme: JsonObject = {"type": "http", "scheme": "bearer"}
            case "http_basic":
                scheme = {"type": "http", "scheme": "basic"}
            case "api_key":
                where = as_string(settings.get("location")).replace("param", "query") or "header"
                scheme = {"type": "apiKey", "in": where, "name": settings.get("name") or "Authorization"}
            case "oauth2_client_credentials" if isinstance(token_url := settings.get("access_token_url"), str):
                scheme = {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": token_url}}}
            case _:
                if auth is not None and not self._is_code("client.auth", auth):
                    self._leave("client.auth", "there is no equivalent component: write an authenticator")
                return requester
        requester["authenticator"], what, self._logins = authenticator("auth", scheme, self._config, lambda url: url)
        self._guesses.append(Guess(f"log-in: {what}", _DLT, "write credentials into config.json: none is carried over"))
        return requester

    def _stream(self, resource: Mapping[str, JsonValue]) -> StreamDraft:
        """Return a resource as a stream."""
        name, where = snake(as_string(resource["name"])), f"resources.{resource['name']}"
        endpoint, at = as_object(resource["endpoint"]), f"{where}.endpoint"
        guesses = [Guess("no schema", "dlt infers it", "`spark-cdk discover --infer` shows it")]
        self._leave_others(where, resource, _RESOURCE)
        self._leave_others(at, endpoint, _ENDPOINT)
        path, params = _path_of(resource)
        parents = _parents(path, params)
        params = {key: value for key, value in params.items() if as_object(value).get("type") != "resolve"}
        cursor = self._cursor(at, name, endpoint, params, guesses)
        pages = self._paging(at, name, endpoint, params, guesses)
        selector = self._selector(at, name, endpoint.get("data_selector"), guesses)
        fields = [*map(as_string, as_list(resource.get("include_from_parent")))] if parents else []
        request = self._request(at, endpoint, self._path(path, parents), params, pages)
        key = resource.get("primary_key")
        component = stream_component(
            name,
            request,
            selector,
            key=None if self._is_code(f"{where}.primary_key", key) else key,
            cursor=cursor,
            paginator=pages.component,
            router=_router(parents, fields),
            transformations=[{"type": "AddFields", "fields": [*_added(parents, fields)]}] if fields else None,
        )
        if mode := _MODES.get(as_string(resource.get("write_disposition"))):
            guesses.append(Guess(f"written as {mode}", _DLT, f"the pipeline file decides: `write_mode: {mode}`"))
        if resource.get("selected") is False:
            guesses.append(Guess("read only for its children", _DLT, "leave it out of the pipeline's `streams`"))
        record = self._record(name, key, cursor)
        pattern = f"{self._base}/{PARAMETER.sub('*', path).strip('/')}"
        method = as_string(endpoint.get("method")).upper() or "GET"
        return StreamDraft(name, component, guesses, examples_of(pattern, selector, record, pages.probe, method))

    def _request(
        self, where: str, endpoint: Mapping[str, JsonValue], path: str, params: JsonObject, pages: PaginatorGuess
    ) -> JsonObject:
        sent = {key: self._text(key, value) for key, value in params.items() if key not in pages.handled}
        body, filters = endpoint.get("json"), [*self._filters(where, endpoint)]
        request: JsonObject = {
            "$ref": "#/definitions/requester",
            "path": path,
            "http_method": endpoint.get("method"),
            "request_parameters": {**sent, **pages.always} or None,
            "request_body": body and {"type": "RequestBodyJsonObject", "value": self._nested("json", body)},
            "error_handler": {"type": "DefaultErrorHandler", "response_filters": filters} if filters else None,
        }
        return present(request)

    def _record(self, name: str, key: JsonValue, cursor: JsonObject | None) -> JsonObject:
        """Return a record for tests, with the fields for its key, its cursor and its child streams."""
        names = [key] if isinstance(key, str) else [*map(as_string, as_list(key))]
        record: JsonObject = dict.fromkeys(names or ["id"], "1")
        for each in self._needed:
            if each.stream == name:
                first, *others = each.field.split(".")
                value: JsonValue = record.get(first, "1")
                for field in reversed(others):
                    value = {field: value}
                record[first] = value
        if cursor is not None:
            record[as_string(cursor["cursor_field"])] = first_cursor_value(cursor, self._config, name)
        return record

    def _path(self, path: str, parents: Sequence[_Parent]) -> str:
        """Return a path with its placeholders as expressions; those that no parent fills become config."""
        fields = {each.placeholder: expression(each.partition) for each in parents}

        def value(match: re.Match[str]) -> str:
            return fields.get(match[1]) or self._config.add(snake(match[1]), {"type": "string"})

        return "/" + PARAMETER.sub(value, path).lstrip("/")

    def _cursor(
        self, where: str, name: str, endpoint: Mapping[str, JsonValue], params: JsonObject, guesses: list[Guess]
    ) -> JsonObject | None:
        """Return the incremental sync; removes the parameters that it sends from `params`."""
        cursor = dict(as_object(endpoint.get("incremental")))
        for key, value in [*params.items()]:
            bound = as_object(value) if as_object(value).get("type") == "incremental" else None
            match = _BOUND.search(value) if isinstance(value, str) else None
            if bound is None and match is None:
                continue
            if match is not None and match[0] != value:
                self._leave(f"{where}.params.{key}", f"found {value!r}, and the bare value is sent")
            cursor |= {**(bound or {}), "end_param" if match and match[1] == "end_value" else "start_param": key}
            del params[key]
        field = as_string(cursor.get("cursor_path")).removeprefix("$.")
        if not field or "." in field:
            if cursor:
                text = f"found the cursor {field!r}, expected a field of the record itself"
                self._leave(f"{where}.incremental", text)
            return None
        self._leave_others(f"{where}.incremental", cursor, _CURSOR)
        initial = cursor.get("initial_value")
        if self._is_code(f"{where}.incremental.initial_value", initial):
            initial = None
        bounds = {"start_param": "start_time_option", "end_param": "end_time_option"}
        sent = {option: as_string(cursor[param]) for param, option in bounds.items() if cursor.get(param)}
        component, guess = cursor_of(field, initial, sent, self._config, name)
        guesses.append(guess)
        return component

    def _paging(
        self, where: str, name: str, endpoint: Mapping[str, JsonValue], params: JsonObject, guesses: list[Guess]
    ) -> PaginatorGuess:
        named = endpoint.get("paginator", self._client.get("paginator")) or "auto"
        settings = {"type": named} if isinstance(named, str) else as_object(named)
        if self._is_code(f"{where}.paginator", named) or settings.get("type") == "auto":
            known = {key: known_parameter(key, value) for key, value in params.items()}
            pages = guess_paginator(PageFacts(name, known, {}, {}, "", None))
            what = "no pagination: one page is read" if pages.guess is None else pages.guess.what
            check = f"`spark-cdk preview {name}` shows what the response says of a next page"
            guesses.append(Guess(what, "dlt finds the paginator in the responses, and the file names none", check))
            return pages
        pages, lost = paging_of(settings, name)
        guesses += [] if pages.guess is None else [pages.guess]
        for option, reason in lost:
            self._leave(f"{where}.paginator.{option}", reason)
        return pages

    def _selector(self, where: str, name: str, selector: JsonValue, guesses: list[Guess]) -> Sequence[str]:
        """Return the path of the records in a response."""
        if selector is None:
            check = f"`spark-cdk preview {name}` shows the response; `field_path` leads to them"
            guesses.append(Guess("records: the body, or its elements", "dlt finds the list in the response", check))
            return []
        path = as_string(selector).removeprefix("$.").removeprefix("$").removesuffix("[*]").removesuffix(".*")
        if self._is_code(f"{where}.data_selector", selector) or re.search(r"[\[\]()?@*]|^\.", path):
            self._leave(f"{where}.data_selector", f"found {selector!r}, expected names with dots: write `field_path`")
            return []
        return [part for part in path.split(".") if part]

    def _filters(self, where: str, endpoint: Mapping[str, JsonValue]) -> Iterator[JsonObject]:
        for number, each in enumerate(as_list(endpoint.get("response_actions"))):
            action = as_object(each)
            code, content = action.get("status_code"), as_string(action.get("content"))
            if action.get("action") != "ignore" or not (isinstance(code, int) or content):
                self._leave(f"{where}.response_actions[{number}]", "only the action `ignore` has a component")
                continue
            statuses: JsonObject = {"http_codes": [code]} if isinstance(code, int) else {}
            texts: JsonObject = {"error_message_contains": content} if content else {}
            yield {"type": "HttpResponseFilter", "action": "IGNORE", **statuses, **texts}

    def _text(self, name: str, value: JsonValue, example: JsonValue = None, read: Read = in_field) -> str:
        """Return the text of a value of a request, as `read` reads it.

        A value that may be a secret, or that dlt looks up, becomes config, and is written nowhere.
        """
        own = as_object(value)
        label = as_string(own.get(SECRET)) or as_string(own.get(SETTING)) or name
        if self._is_code(name, value) or own or looks_secret(name):
            schema: JsonObject = {"type": "string", "title": label}
            if SECRET in own or looks_secret(name):
                schema["airbyte_secret"] = True
            return self._config.add(snake(label), schema, example)
        if isinstance(value, str):
            return written(value, read)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _nested(self, name: str, value: JsonValue) -> JsonValue:
        match value:
            case dict() if not {CODE, SECRET, SETTING} & value.keys():
                return {key: self._nested(key, inner) for key, inner in value.items()}
            case list():
                return [self._nested(name, inner) for inner in value]
            case str() | dict():
                return self._text(name, value, read=in_json)
            case _:
                return value

    def _is_code(self, where: str, value: JsonValue) -> bool:
        """Whether a value is code; then it is listed as left out."""
        code = as_object(value).get(CODE)
        if code is not None:
            self._leave(where, f"found `{code}`, which {_CODE}")
        return code is not None

    def _leave(self, where: str, reason: str) -> None:
        self._left_out.append(LeftOut(where, reason))

    def _leave_others(self, where: str, settings: Mapping[str, JsonValue], known: set[str]) -> None:
        for name in sorted(settings.keys() - known):
            if settings[name] is not None and not self._is_code(f"{where}.{name}", settings[name]):
                self._leave(f"{where}.{name}", _REASONS.get(name, "no component has it"))


def _path_of(resource: Mapping[str, JsonValue]) -> tuple[str, JsonObject]:
    """Return the path of a resource, and its parameters."""
    endpoint = as_object(resource["endpoint"])
    return as_string(endpoint.get("path")) or as_string(resource["name"]), dict(as_object(endpoint.get("params")))


def _parents(path: str, params: Mapping[str, JsonValue]) -> list[_Parent]:
    """Return the fields of parents that a path contains."""
    parents: list[_Parent] = []
    for placeholder in PARAMETER.findall(path):
        bound = as_object(params.get(placeholder))
        if match := _PARENT.fullmatch(placeholder):
            parents.append(_Parent(placeholder, snake(match[1]), match[2]))
        elif bound.get("type") == "resolve":
            parents.append(_Parent(placeholder, snake(as_string(bound.get("resource"))), as_string(bound.get("field"))))
    return parents


def _router(parents: Sequence[_Parent], fields: Sequence[str]) -> JsonObject | None:
    extra: JsonObject = {"extra_fields": [[field] for field in fields]} if fields else {}
    configs: list[JsonValue] = [
        {
            "type": "ParentStreamConfig",
            "stream": {"$ref": f"#/definitions/streams/{parent.stream}"},
            "parent_key": parent.field.replace(".", "/"),
            "partition_field": snake(parent.placeholder),
            **extra,
        }
        for parent in parents
    ]
    return {"type": "SubstreamPartitionRouter", "parent_stream_configs": configs} if configs else None


def _added(parents: Sequence[_Parent], fields: Sequence[str]) -> Iterator[JsonValue]:
    """Yield added fields with values of the parent, under the names that dlt uses."""
    for field in fields:
        value = expression(f"stream_slice.extra_fields[{quoted(field)}]")
        yield {"type": "AddedFieldDefinition", "path": [f"_{parents[0].stream}_{field}"], "value": value}
