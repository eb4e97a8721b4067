"""A model of an API: what it holds, how its pages and logins work; its description, and a mock that answers as it does.

The description says what descriptions of real APIs say, so not how the parts belong together: that is to be guessed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

import orjson
from hypothesis import strategies as st

from cdk.base.values import Json
from cdk.rest import Headers, Request, Response
from cdk.testing import MockApi, Route
from cdk.testing.simulator.examples import inside

HOST, BASE, SIZE = "https://api.example.com", "/api/v2", 3
SECRET = "a-secret-of-the-tests"
PAGES = (
    "none",
    "number",
    "from zero",
    "capped number",
    "offset",
    "token",
    "url",
    "nested url",
    "said url",
    "link",
    "last record",
)
ENVELOPES = ((), ("data",), ("items",), ("response", "results"), ("{name}",), ("list", "*", "{singular}"))
KEYS = ("id", "uuid", "{singular}_id")
SINCE: Mapping[str, tuple[str, str | None]] = {
    "updated_since": ("updated_since", "updated_at"),
    "window": ("from", "created_at"),
    "sorted window": ("begin_time", "updated_at"),
    "window of its text": ("start_date", "updated_at"),
    "window with an end": ("start_time", "created_at"),
    "no window": ("start", None),
}
"""For each kind of filter its parameter, and the field that it goes by."""

LOGINS: Mapping[str, tuple[Json, str, str]] = {
    "bearer": ({"type": "http", "scheme": "bearer"}, "authorization", f"Bearer {SECRET}"),
    "basic": ({"type": "http", "scheme": "basic"}, "authorization", "Basic dGhlIHVzZXI6YS1zZWNyZXQtb2YtdGhlLXRlc3Rz"),
    "prefix": (
        {"type": "apiKey", "in": "header", "name": "Authorization", "description": "As `Token token=<key>`."},
        "authorization",
        f"Token token={SECRET}",
    ),
    "header": ({"type": "apiKey", "in": "header", "name": "X-Key"}, "x-key", SECRET),
    "client": (
        {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": f"{HOST}/token", "scopes": {}}}},
        "authorization",
        f"Bearer {SECRET}",
    ),
}
INTEGER, STRING = {"type": "integer"}, {"type": "string"}


@dataclass(frozen=True)
class Resource:
    """A collection. since: how it is filtered by time. coded: one record is read by its code, which may change.

    posted: it is read by a POST, whose body asks for the page. parent: the one whose records it is below of.
    """

    name: str
    count: int
    key: str
    pages: str
    envelope: tuple[str, ...]
    since: str
    required: bool
    coded: bool
    posted: bool
    parent: "Resource | None" = None

    @property
    def field(self) -> str:
        return self.key.format(singular=self.name.removesuffix("s"))

    @property
    def cursor(self) -> str | None:
        """The field that its filter goes by."""
        return SINCE[self.since][1] if self.since else None

    @property
    def records(self) -> tuple[str, ...]:
        return tuple(part.format(name=self.name, singular=self.name.removesuffix("s")) for part in self.envelope)

    @property
    def path(self) -> str:
        if self.parent is None:
            return f"/{self.name}"
        return f"{self.parent.path}/{{{self.parent.name.removesuffix('s')}_id}}/{self.name}"

    @property
    def method(self) -> str:
        return "POST" if self.posted else "GET"

    @property
    def verb(self) -> str:
        """What is behind its path."""
        return "/search" if self.posted else ""

    @property
    def stream(self) -> str:
        return "_".join(part for part in self.path.split("/") if part and "{" not in part)

    def rows(self, above: str = "") -> Sequence[Json]:
        """The records below the parent whose path has these keys."""
        return [
            {
                self.field: f"{above}{self.name[0]}{n}",
                "size": n,
                "code": f"c{n}",
                "created_at": f"2024-02-{n + 1:02}T00:00:00Z",
                "updated_at": f"2024-03-{n + 1:02}T00:00:00Z",
            }
            for n in range(self.count)
        ]

    def all_rows(self) -> Sequence[Json]:
        """The records as they are read, with the keys of their parents."""
        if self.parent is None:
            return self.rows()
        rows: list[Json] = []
        for above in self.parent.all_rows():
            keys = {**{name: above[name] for name in self.parent.parents}, self.parents[-1]: above[self.parent.field]}
            rows += [{**row, **keys} for row in self.rows(f"{above[self.parent.field]}.")]
        return rows

    @property
    def parents(self) -> Sequence[str]:
        """The fields of its records as they are read that are the keys of its parents."""
        return [part.partition("}")[0] for part in self.path.split("{")[1:]]


@dataclass(frozen=True)
class DescribedApi:
    resources: Sequence[Resource]
    login: str
    version: str

    def description(self) -> Json:
        paths = {each.path + each.verb: {each.method.lower(): self._get(each)} for each in self.resources}
        paths |= {f"{each.path}/{{code}}": {"get": self._get_one(each)} for each in self.resources if each.coded}
        records = {resource.name.title(): _schema(resource, self.version) for resource in self.resources}
        scheme = LOGINS[self.login][0]
        head = {"info": {"title": "Model", "version": "1"}, "paths": paths, "security": [{"login": []}]}
        if self.version == "2.0":
            if self.login in {"basic", "client"}:
                flow = {"type": "oauth2", "flow": "application", "tokenUrl": f"{HOST}/token"}
                scheme = flow if self.login == "client" else {"type": "basic"}
            own = {"swagger": "2.0", "host": urlsplit(HOST).netloc, "basePath": BASE, "schemes": ["https"]}
            return {**own, **head, "definitions": records, "securityDefinitions": {"login": scheme}}
        components = {"schemas": records, "securitySchemes": {"login": scheme}}
        server = {"url": f"https://{{region}}.example.com{BASE}", "variables": {"region": {"default": "api"}}}
        return {"openapi": self.version, **head, "components": components, "servers": [server]}

    @property
    def config(self) -> Json:
        secrets = {"access_token": SECRET, "api_key": SECRET, "password": SECRET, "client_secret": SECRET}
        return {**secrets, "username": "the user", "client_id": "us", "tenant": "blue"}

    def mock(self) -> MockApi:
        mock = MockApi()
        mock.post("/token").returns(json={"access_token": SECRET, "expires_in": 3600})
        for resource in self.resources:
            path = f"{BASE}{resource.path}{resource.verb}"
            pattern = "/".join("*" if "{" in part else part for part in path.split("/"))
            mock.add(Route(resource.method, pattern)).answers(self._responder(resource))
        return mock

    def _responder(self, resource: Resource) -> Callable[[Request], Response]:
        _, header, secret = LOGINS[self.login]

        def respond(request: Request) -> Response:
            url = urlsplit(request.full_url)
            sent = dict(parse_qsl(url.query))
            assert Headers(request.headers).get(header) == secret
            assert not resource.required or sent.get("tenant") == "blue"
            keys = url.path.removeprefix(f"{BASE}/").removesuffix(resource.verb).split("/")[1::2]
            rows = resource.rows(f"{keys[-1]}." if keys else "")
            assert resource.since != "window with an end" or "end_time" in sent
            if resource.cursor is not None:
                assert SINCE[resource.since][0] in sent
                by = sent.get("sort", "created_at") if resource.since == "sorted window" else resource.cursor
                assert by == resource.cursor
                rows = [row for row in rows if row[by] >= sent[SINCE[resource.since][0]]]
            return _page(resource, rows, request)

        return respond

    def _get_one(self, resource: Resource) -> Json:
        reference = "definitions" if self.version == "2.0" else "components/schemas"
        body: Json = {"$ref": f"#/{reference}/{resource.name.title()}"}
        names = [part.partition("}")[0] for part in resource.path.split("{")[1:]]
        parameters = [_parameter(name, "path", STRING, self.version) for name in [*names, "code"]]
        response = {"schema": body} if self.version == "2.0" else {"content": {"application/json": {"schema": body}}}
        return {"parameters": parameters, "responses": {"200": {"description": "one", **response}}}

    def _get(self, resource: Resource) -> Json:
        names = [(name, "path", STRING) for name in resource.path.split("{")[1:]]
        parameters = [_parameter(name.partition("}")[0], place, schema, self.version) for name, place, schema in names]
        asked = [] if resource.posted else [*_ASKED[resource.pages]]
        asked += [("tenant", STRING)] if resource.required else []
        asked += _FILTERS[resource.since] if resource.since else []
        ends = {"end_time"} if resource.since == "window with an end" else set()
        parameters += [_parameter(name, "query", schema, self.version, required=name in ends) for name, schema in asked]
        reference = "definitions" if self.version == "2.0" else "components/schemas"
        records: Json = {"type": "array", "items": {"$ref": f"#/{reference}/{resource.name.title()}"}}
        following = {**STRING, "description": "Path to the next page."} if resource.pages == "said url" else STRING
        body = _enveloped(
            resource, records, {"next": following, "next_cursor": STRING, "has_more": {"type": "boolean"}}
        )
        body = _as_schema(body, records)
        response: Json = {"description": "the records"}
        if resource.pages == "link":
            response["headers"] = {"Link": {"schema": STRING}}
        response |= {"schema": body} if self.version == "2.0" else {"content": {"application/json": {"schema": body}}}
        operation: Json = {"parameters": parameters, "responses": {"200": response}}
        if resource.posted:
            sent: Json = {
                "type": "object",
                "properties": {name: _nullable(each) for name, each in _ASKED[resource.pages]},
            }
            if self.version == "2.0":
                parameters.append({"name": "body", "in": "body", "schema": sent})
            else:
                operation["requestBody"] = {"content": {"application/json": {"schema": sent}}}
        return operation


def _nullable(schema: Json) -> Json:
    """A schema of a field that may be null, as frameworks of Python write it."""
    return {"anyOf": [schema, {"type": "null"}], **{name: schema[name] for name in ("default",) if name in schema}}


_ASKED: Mapping[str, Sequence[tuple[str, Json]]] = {
    "none": [],
    "number": [("page", {**INTEGER, "minimum": 1}), ("per_page", {**INTEGER, "maximum": SIZE})],
    "from zero": [("page", {**INTEGER, "default": 0}), ("size", {**INTEGER, "default": SIZE})],
    "capped number": [("page", INTEGER), ("per_page", INTEGER)],
    "offset": [("offset", INTEGER), ("limit", INTEGER)],
    "token": [("cursor", STRING), ("limit", {**INTEGER, "maximum": SIZE})],
    "url": [],
    "nested url": [],
    "said url": [],
    "link": [("page", INTEGER), ("per_page", INTEGER)],
    "last record": [("starting_after", STRING)],
}


_TIME: Json = {**STRING, "format": "date-time"}
_FILTERS: Mapping[str, Sequence[tuple[str, Json]]] = {
    "updated_since": [("updated_since", _TIME)],
    "window": [("from", _TIME), ("to", _TIME)],
    "sorted window": [
        ("begin_time", _TIME),
        ("end_time", _TIME),
        ("sort", {**STRING, "enum": ["created_at", "updated_at"]}),
    ],
    "window of its text": [("start_date", _TIME), ("end_date", _TIME)],
    "window with an end": [("start_time", _TIME), ("end_time", _TIME)],
    "no window": [("start", _TIME)],
}
_TEXTS = {"begin_time": "By what `sort` says: `sort=created_at` or others.", "start_date": "Filters by `updated_at`."}


def _parameter(name: str, place: str, schema: Json, version: str, *, required: bool = False) -> Json:
    head = {"name": name, "in": place, "required": place == "path" or name == "tenant" or required}
    head["description"] = _TEXTS.get(name, "")
    return {**head, **schema} if version == "2.0" else {**head, "schema": schema}


def _schema(resource: Resource, version: str) -> Json:
    nullable = {"type": ["integer", "null"]} if version == "3.1.0" else {**INTEGER, "nullable": True}
    own = {"type": "object", "properties": {resource.field: STRING, "size": nullable, "code": STRING}}
    dated = {"properties": {name: {**STRING, "format": "date-time"} for name in ("created_at", "updated_at")}}
    return {"allOf": [own, dated]}


def _enveloped(resource: Resource, records: Json, beside: Json) -> Json:
    """Records in their envelope, with what this kind of pages has beside them."""
    names = {
        "url": ["next"],
        "nested url": ["next"],
        "said url": ["next"],
        "token": ["next_cursor"],
        "last record": ["has_more"],
    }
    extra = {name: beside[name] for name in names.get(resource.pages, [])}
    if resource.pages == "nested url":
        extra = {"links": extra}
    if resource.pages == "url":
        extra = {"next_url": extra["next"]}
    body = records
    match resource.records:
        case path if isinstance(records, list):
            body = inside(path, records)
        case (outer, "*", own):
            of_one = {"type": "object", "properties": {own: records["items"]}}
            body = {outer: {"type": "array", "items": of_one}}
        case path:
            for name in reversed(path):
                body = {name: body}
    return {**body, **extra} if extra else body


def _as_schema(body: Json, records: Json) -> Json:
    if body is records or "type" in body:
        return body
    return {"type": "object", "properties": {name: _as_schema(part, records) for name, part in body.items()}}


def _page(resource: Resource, rows: Sequence[Json], request: Request) -> Response:
    """The page of rows that a request asks for."""
    url = urlsplit(request.full_url)
    sent = {**(orjson.loads(request.body) if request.body else {}), **dict(parse_qsl(url.query))}
    first = {"from zero": 0}.get(resource.pages, 1)
    match resource.pages:
        case "none":
            begin, size = 0, len(rows) or 1
        case "offset":
            begin, size = int(sent.get("offset", 0)), SIZE
        case "token":
            begin, size = int(sent.get("cursor", "0")), SIZE
        case "last record":
            keys = [row[resource.field] for row in rows]
            begin, size = keys.index(sent["starting_after"]) + 1 if "starting_after" in sent else 0, SIZE
        case "url" | "nested url" | "said url":
            begin, size = int(sent.get("from_row", 0)), SIZE
        case _:
            begin, size = (int(sent.get("page", first)) - first) * SIZE, SIZE
    end = begin + size
    more = end < len(rows)
    after = {"from_row": end} if "url" in resource.pages else {"page": int(sent.get("page", first)) + 1}
    following = f"{url.path}?{urlencode({**sent, **after})}" if more else None
    beside = {"next": following, "next_cursor": str(end) if more else None, "has_more": more}
    headers = {"Content-Type": "application/json"}
    if resource.pages == "link" and following:
        headers["Link"] = f'<{HOST}{following}>; rel="next"'
    body = orjson.dumps(_enveloped(resource, rows[begin:end], beside))
    return Response(200, Headers(headers), body, request.full_url, request)


@st.composite
def described_apis(draw: st.DrawFn) -> DescribedApi:
    """APIs with a few resources, some of which are below of others."""
    resources: list[Resource] = []
    for name in draw(st.sampled_from([["orders"], ["orders", "lines"], ["orders", "lines", "notes", "users"]])):
        parent = draw(st.sampled_from([None, *resources[-1:]]))
        pages = draw(st.sampled_from(PAGES))
        enveloped = pages in {"token", "url", "nested url", "said url", "last record"}
        envelope = draw(st.sampled_from(ENVELOPES[1:] if enveloped else ENVELOPES))
        resources.append(
            Resource(
                name,
                draw(st.integers(0, 7)) if parent is None else draw(st.integers(0, 4)),
                draw(st.sampled_from(KEYS)),
                pages,
                envelope,
                draw(st.sampled_from(["", *SINCE])),
                draw(st.booleans()),
                draw(st.booleans()),
                draw(st.booleans()),
                parent,
            )
        )
    return DescribedApi(resources, draw(st.sampled_from([*LOGINS])), draw(st.sampled_from(["3.0.3", "3.1.0", "2.0"])))
