"""Drafts of curl commands whose requests are sent, against mock APIs: what the responses show, and how that reads."""

import gzip
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson
import pytest
import yaml

from cdk import CdkError, ConfigError
from cdk.authoring.answered_drafts import draft_of_answers
from cdk.authoring.drafts.draft import Draft
from cdk.authoring.drafts.manifest_text import manifest_text
from cdk.authoring.new_connector import new_connector
from cdk.rest import Headers, Request, Response
from cdk.testing import MockApi, Route, read

ROWS = [
    {
        "uuid": f"u{n}",
        "shop_id": n,
        "name": f"row {n}",
        "price": 1.5,
        "changed_at": f"2026-01-{n % 28 + 1:02}",
        "no": None,
    }
    for n in range(45)
]
BOTH = {"curl 'https://api.test/v1/orders.json?per_page=20'": "orders", "curl https://api.test/v1/orders": "orders"}


class Shop(MockApi):
    """Answers pages of orders to who has the token, and counts them."""

    def __init__(self, records: list[dict[str, Any]] | None = None, *, token: str = "", most: int = 20) -> None:
        super().__init__()
        self.rows, self.token, self.most = ROWS if records is None else records, token, most
        self.seen: list[Mapping[str, str]] = []
        for path in ("/v1/orders", "/v1/orders.json"):
            self.get(path).answers(self.page)

    def page(self, request: Request) -> Response:
        query = dict(parse_qsl(urlsplit(request.full_url).query))
        self.seen.append(query)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return self.response(request, {"message": "no token"}, 401)
        size = min(int(query.get("per_page", 10)), self.most)
        begin = (int(query.get("page", 1)) - 1) * size
        return self.response(request, {"ok": True, "data": {"orders": self.rows[begin : begin + size]}})

    def response(self, request: Request, body: object, status: int = 200) -> Response:
        return Response(status, Headers({}), orjson.dumps(body), request.full_url, request)


def stream_of(draft: Draft) -> dict[str, Any]:
    (stream,) = yaml.safe_load(manifest_text(draft))["definitions"]["streams"].values()
    return dict(stream)


@pytest.mark.parametrize("command", BOTH)
def test_records_pages_fields_and_key_are_those_of_the_responses(command: str) -> None:
    draft = draft_of_answers(command, transport=Shop())

    stream = stream_of(draft)
    assert stream["name"] == BOTH[command]
    assert stream["primary_key"] == "uuid"
    assert stream["retriever"]["record_selector"]["extractor"]["field_path"] == ["data", "orders"]
    assert stream["retriever"]["paginator"]["pagination_strategy"]["type"] == "PageIncrement"
    properties = stream["schema_loader"]["schema"]["properties"]
    assert list(properties) == ["uuid", "shop_id", "name", "price", "changed_at"]
    assert properties["price"] == {"type": ["null", "number"]}


@pytest.mark.parametrize("command", BOTH)
def test_the_connector_reads_all_and_its_tests_pass_offline(tmp_path: Path, command: str) -> None:
    written = new_connector("shop", "yaml", tmp_path / "shop", draft_of_answers(command, transport=Shop()))

    assert written.notes == []
    run = read(tmp_path / "shop" / "manifest.yaml", transport=Shop())
    assert (run.error, run.schema_errors) == (None, [])
    assert sorted(record["shop_id"] for record in run.records) == list(range(45))
    mock = MockApi()
    for each in orjson.loads((tmp_path / "shop" / "tests" / "responses.json").read_bytes()):
        mock.get(each["path"], params=each["params"]).returns(json=each["json"])
    offline = read(tmp_path / "shop" / "manifest.yaml", transport=mock)
    assert (offline.error, offline.schema_errors, len(offline.records)) == (None, [], 1)
    assert orjson.loads((tmp_path / "shop" / "config.json").read_bytes()) == {}


@pytest.mark.parametrize(
    "login", ["-H 'Authorization: Bearer s3cret-4711'", "--oauth2-bearer s3cret-4711"], ids=["header", "option"]
)
def test_a_secret_is_sent_and_learned_and_stands_nowhere(tmp_path: Path, login: str) -> None:
    learned: list[str] = []

    draft = draft_of_answers(
        f"curl {login} https://api.test/v1/orders", learn=learned.append, transport=Shop(token="s3cret-4711")
    )
    new_connector("shop", "yaml", tmp_path / "shop", draft)

    assert learned == ["s3cret-4711"]
    files = [path for path in (tmp_path / "shop").rglob("*") if path.is_file()]
    assert [path for path in files if "s3cret" in path.read_text()] == []
    assert not (tmp_path / "shop" / "config.json").exists()


def test_a_secret_that_the_api_echoes_as_a_name_is_written_nowhere() -> None:
    api = MockApi()
    api.get("/things").returns(json={"s3cret-4711": [{"id": 1}, {"id": 2}]})

    with pytest.raises(ConfigError, match="things: found a secret of the command in the response") as caught:
        draft_of_answers("curl -H 'X-Key: s3cret-4711' https://api.test/things", transport=api)

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("login", "header", "value"),
    [
        ("-u ann:s3cret", "Authorization", "Basic YW5uOnMzY3JldA=="),
        ("-H 'Authorization: Basic YW5uOnMzY3JldA=='", "Authorization", "Basic YW5uOnMzY3JldA=="),
        ("-H 'Authorization: Token s3cret'", "Authorization", "Token s3cret"),
        ("-H 'Authorization: s3cret'", "Authorization", "s3cret"),
        ("-H 'X-Key: s3cret'", "X-Key", "s3cret"),
        ("-b 'session=s3cret'", "Cookie", "session=s3cret"),
    ],
)
def test_a_request_is_sent_as_the_command_has_it(login: str, header: str, value: str) -> None:
    seen: list[str | None] = []
    api = MockApi()

    def respond(request: Request) -> Response:
        seen.append(request.headers.get(header))
        return Response(200, Headers({}), orjson.dumps([{"id": 1}, {"id": 2}]), request.full_url, request)

    api.get("/things").answers(respond)

    draft_of_answers(f"curl {login} https://api.test/things", transport=api)

    assert set(seen) == {value}


def test_a_key_in_the_query_and_user_and_password_in_the_address_are_sent() -> None:
    api = MockApi()
    api.get("/things", params={"api_key": "s3cret"}).returns(json=[{"id": 1}, {"id": 2}])

    draft = draft_of_answers("curl 'https://ann:p%40ss@api.test/things?api_key=s3cret'", transport=api)

    assert draft.config.values == {"username": "ann", "password": "p@ss", "api_key": "s3cret"}


@pytest.mark.parametrize("extra", [{}, {"links": [{"rel": "self"}]}, {"tags": ["a"]}], ids=str)
def test_a_response_without_records_is_one(extra: dict[str, Any]) -> None:
    api = MockApi()
    api.get("/me").returns(json={"login": "ann", "plan": "free", **extra})

    draft = draft_of_answers("curl https://api.test/me", transport=api)

    stream = stream_of(draft)
    assert stream["retriever"]["record_selector"]["extractor"]["field_path"] == []
    assert list(stream["schema_loader"]["schema"]["properties"]) == ["login", "plan", *extra]
    assert "primary_key" not in stream
    assert "paginator" not in stream["retriever"]
    assert [guess.what for guess in draft.streams[0].guesses if "of the first" in guess.what] == [
        "schema: the types of the first record"
    ]


@pytest.mark.parametrize("status", [200, 201])
def test_a_command_that_may_write_is_sent_once(status: int) -> None:
    seen: list[bytes | None] = []
    api = MockApi()

    def respond(request: Request) -> Response:
        seen.append(request.body)
        body = {"items": [{"id": 1}, {"id": 2}], "next_url": "https://api.test/items?page=2"}
        return Response(status, Headers({}), orjson.dumps(body), request.full_url, request)

    api.post("/items").answers(respond)

    stream = stream_of(draft_of_answers("curl https://api.test/items -d '{\"a\": 1}'", transport=api))

    assert seen == [b'{"a":1}']
    assert stream["primary_key"] == "id"
    assert stream["retriever"]["record_selector"]["extractor"]["field_path"] == ["items"]


def fields_of(request: Request) -> dict[str, Any]:
    """The fields of a JSON body, or of a form."""
    try:
        return dict(orjson.loads(request.body or b"{}"))
    except orjson.JSONDecodeError:
        return dict(parse_qsl((request.body or b"").decode()))


class Posted(MockApi):
    """Gives the page that the body of a POST asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.post("/orders/filter").answers(self.page)

    def page(self, request: Request) -> Response:
        sent = fields_of(request)
        size = int(sent.get("limit", sent.get("page_size", sent.get("max_results", 7))))
        begin = int(sent.get("offset") or sent.get("page_token") or (int(sent.get("page", 1)) - 1) * size)
        body: dict[str, Any] = {"orders": ROWS[begin : begin + size]}
        if "max_results" in sent and begin + size < len(ROWS):
            body["next_page_token"] = f"{begin + size}"
        return Response(200, Headers({}), orjson.dumps(body), request.full_url, request)


@pytest.mark.parametrize(
    ("data", "strategy", "asked_by"),
    [
        ("""--json '{"limit":10,"offset":0,"kind":"3","state":null}'""", "OffsetIncrement", ("body_json", "offset")),
        ("""--json '{"page":1,"page_size":20}'""", "PageIncrement", ("body_json", "page")),
        ("""--json '{"page":1,"of":"2"}'""", "PageIncrement", ("body_json", "page")),
        ("""--json '{"max_results":9,"page_token":""}'""", "CursorPagination", ("body_json", "page_token")),
        ("""--json '{"max_results":9,"page_token":null}'""", "CursorPagination", ("body_json", "page_token")),
        ("""--json '{"max_results":9}'""", "CursorPagination", ("body_json", "page_token")),
        ("-d limit=10 -d offset=0", "OffsetIncrement", ("body_data", "offset")),
    ],
)
def test_pages_that_are_asked_for_in_the_body_are_read(
    tmp_path: Path, data: str, strategy: str, asked_by: tuple[str, str]
) -> None:
    api, command = Posted(), f"curl {data} https://api.test/orders/filter"

    draft = draft_of_answers(command, transport=api)
    new_connector("shop", "yaml", tmp_path / "shop", draft)

    paginator = stream_of(draft)["retriever"]["paginator"]
    option = paginator["page_token_option"]
    assert paginator["pagination_strategy"]["type"] == strategy
    assert (option["inject_into"], option["field_name"]) == asked_by
    assert len(api.requests) == 1
    run = read(tmp_path / "shop" / "manifest.yaml", transport=api)
    assert (run.error, [record["shop_id"] for record in run.records]) == (None, list(range(45)))
    first, fixed = fields_of(api.requests[0]), {"offset", "page", "page_token"}
    assert first.keys() - fixed <= {name for name, value in fields_of(api.requests[1]).items() if value == first[name]}
    mock = MockApi()
    for each in orjson.loads((tmp_path / "shop" / "tests" / "responses.json").read_bytes()):
        mock.add(Route(each["method"], each["path"], each["params"], body=each.get("body"))).returns(json=each["json"])
    offline = read(tmp_path / "shop" / "manifest.yaml", transport=mock)
    assert (offline.error, offline.schema_errors, len(offline.records)) == (None, [], 1)
    again = draft_of_answers(command, beside={draft.streams[0].name: draft.streams[0].component}, transport=Posted())
    assert [stream.name for stream in again.streams] == [draft.streams[0].name]


class Offsets(MockApi):
    """Gives three rows from a row on, and says where the next ones begin by a name that is no parameter's."""

    def __init__(self, next_field: str, asked_by: str) -> None:
        super().__init__()
        self.get("/v1/orders").answers(partial(self.page, next_field, asked_by))

    def page(self, next_field: str, asked_by: str, request: Request) -> Response:
        begin = int(dict(parse_qsl(urlsplit(request.full_url).query)).get(asked_by, 0))
        body = {"orders": ROWS[begin : begin + 3], "offset": begin, next_field: begin + 3}
        return Response(200, Headers({}), orjson.dumps(body), request.full_url, request)


@pytest.mark.parametrize(
    ("next_field", "asked_by", "query"),
    [
        ("next_batch", "from", "?limit=3&from=0"),
        ("next_batch", "from", "?limit=3"),
        ("next_token", "from", ""),
        ("next_token", "token", ""),
        ("nextPosition", "position", "?limit=3"),
        ("next_cursor", "cursor", ""),
        ("next_id", "after", ""),
    ],
)
def test_a_field_that_names_the_next_page_is_tried_with_the_parameters_that_may_take_it(
    next_field: str, asked_by: str, query: str
) -> None:
    api = Offsets(next_field, asked_by)

    paginator = stream_of(draft_of_answers(f"curl 'https://api.test/v1/orders{query}'", transport=api))["retriever"][
        "paginator"
    ]

    assert paginator["page_token_option"]["field_name"] == asked_by


def test_a_parameter_of_the_request_counts_more_than_what_the_response_calls_the_same() -> None:
    api = MockApi()

    def respond(request: Request) -> Response:
        begin = int(dict(parse_qsl(urlsplit(request.full_url).query)).get("from", 0))
        body = {"orders": ROWS[:3][begin:], "offset": begin}
        return Response(200, Headers({}), orjson.dumps(body), request.full_url, request)

    api.get("/v1/orders").answers(respond)

    stream = stream_of(draft_of_answers("curl 'https://api.test/v1/orders?from=0&limit=10'", transport=api))

    assert stream["retriever"]["paginator"]["page_token_option"]["field_name"] == "from"


def test_a_draft_that_reads_one_page_of_several_says_what_tells_so() -> None:
    api = MockApi()
    api.get("/v1/orders").returns(json={"orders": ROWS[:3], "total_orders": 40})

    (stream,) = draft_of_answers("curl 'https://api.test/v1/orders'", transport=api).streams

    (guess,) = (each for each in stream.guesses if each.what.startswith("pagination"))
    assert guess.what == "pagination is MISSING: only one of several pages is read"
    assert guess.why.startswith("there is 40 in total_orders of the body, and the page has 3 records; 3 ways")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "a full page: `limit` requests 3 records, and as many were returned, so there are probably more"),
        ({"next_batch": "x"}, "'x' in next_batch of the body"),
    ],
)
def test_a_draft_that_knows_no_next_page_does_not_say_that_there_is_none(body: dict[str, str], why: str) -> None:
    api = MockApi()
    api.post("/orders").returns(json={"orders": ROWS[:3], **body})

    (stream,) = draft_of_answers("curl --json '{\"limit\":3}' https://api.test/orders", transport=api).streams

    (guess,) = (each for each in stream.guesses if each.what.startswith("pagination"))
    assert guess.what == "pagination is MISSING: only one of several pages is read"
    assert guess.why == f"there is {why}; neither request nor response shows how to request the next page"


class Linked(Shop):
    """Names the last page in its header `Link` where a request has a page, and the next one where there is one."""

    def page(self, request: Request) -> Response:
        response = super().page(request)
        links = '<https://api.test/v1/orders?page=9>; rel="last"' if "page" in self.seen[-1] else ""
        return Response(200, Headers({"Link": links} if links else {}), response.body, request.full_url, request)


def test_a_list_of_one_page_is_read_by_the_page_that_the_command_asks_for() -> None:
    api = Linked(ROWS[:5])

    stream = stream_of(draft_of_answers("curl 'https://api.test/v1/orders?page=1&per_page=10'", transport=api))

    assert stream["retriever"]["paginator"]["pagination_strategy"]["type"] == "PageIncrement"
    assert stream["retriever"]["paginator"]["page_token_option"]["field_name"] == "page"


class Hurried(Shop):
    """Answers each second request that it came too soon."""

    refused = 0

    def page(self, request: Request) -> Response:
        self.refused += 1
        if self.refused % 2:
            return Response(429, Headers({"Retry-After": "0"}), b"{}", request.full_url, request)
        return super().page(request)


def test_a_request_that_came_too_soon_is_sent_again() -> None:
    hurried = Hurried()

    draft = draft_of_answers("curl https://api.test/v1/orders", transport=hurried)

    assert manifest_text(draft) == manifest_text(draft_of_answers("curl https://api.test/v1/orders", transport=Shop()))
    assert hurried.refused == 2 * len(hurried.seen)


def test_a_command_that_may_write_is_not_sent_again() -> None:
    api = MockApi()
    api.post("/items").returns(status=429, json={"message": "too soon"})

    with pytest.raises(CdkError, match="429"):
        draft_of_answers("curl https://api.test/items -d '{}'", transport=api)

    assert len(api.requests) == 1


@pytest.mark.parametrize("status", [401, 500, 503])
def test_a_command_that_fails_is_not_sent_again(status: int) -> None:
    api = MockApi()
    api.get("/items").returns(status=status, json={"message": "no"})

    with pytest.raises(CdkError, match=str(status)):
        draft_of_answers("curl https://api.test/items", transport=api)

    assert len(api.requests) == 1


def test_guesses_say_what_the_responses_showed() -> None:
    draft = draft_of_answers("curl https://api.test/v1/orders", transport=Shop())

    (stream,) = draft.streams
    said = [f"{guess.what}: {guess.why}" for guess in stream.guesses]
    assert said[0] == "records: at `data > orders`: the response has 10 there"
    assert said[1].endswith("the next page has 10 other records")
    assert said[2].startswith("schema: the types of the first 30 records")
    assert said[3] == "primary key `uuid`: each of the first 30 records has a different value"
    assert said[4] == "not in the schema: `no`: null in all 30 records, so of no known type"
    assert (
        said[5] == "no cursor: each sync reads all: the responses do not show whether the API filters by `changed_at`"
    )


def test_a_field_that_is_called_like_no_key_is_none() -> None:
    rows = [{"price": n, "shop_id": n} for n in range(5)]

    assert "primary_key" not in stream_of(draft_of_answers("curl https://api.test/v1/orders", transport=Shop(rows)))


@pytest.mark.parametrize("key", ["experiment_id", "experimentId"])
@pytest.mark.parametrize("at", [None, "experiments", "results"])
def test_the_identifier_of_the_records_is_the_key_before_their_name(key: str, at: str | None) -> None:
    rows = [{"name": f"n{n}", key: f"{n}"} for n in range(3)]
    api = MockApi()
    api.get("/experiments/search").returns(json=rows if at is None else {at: rows})

    draft = draft_of_answers("curl https://api.test/experiments/search", transport=api)

    assert stream_of(draft)["primary_key"] == key


def test_the_same_command_again_is_the_same_stream() -> None:
    command = "curl 'https://api.test/v1/orders?per_page=20'"
    first = draft_of_answers(command, transport=Shop())

    again = draft_of_answers(command, beside={"orders": first.streams[0].component}, transport=Shop())
    other = draft_of_answers(
        "curl 'https://api.test/v1/orders?kind=b'", beside={"orders": first.streams[0].component}, transport=Shop()
    )

    assert [stream.name for stream in again.streams] == ["orders"]
    assert [stream.name for stream in other.streams] == ["v_1_orders"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"status": 404, "json": {"message": "nothing here"}}, "404"),
        ({"body": b"a,b\n1,2\n"}, "a body that is not JSON.* have the command request JSON"),
        ({"json": {"rows": []}}, "things: found `rows` empty, expected records"),
        ({"json": {"rows": [[1, 2]]}}, "things: found `rows` a list whose first element is a list, expected objects"),
    ],
)
def test_a_request_that_fails_or_has_no_json_drafts_nothing(answer: dict[str, Any], error: str) -> None:
    api = MockApi()
    api.get("/things").returns(**answer)

    with pytest.raises(CdkError, match=error):
        draft_of_answers("curl https://api.test/things", transport=api)


JSON_LINES = b"".join(orjson.dumps(row) + b"\n" for row in ROWS[:5])


@pytest.mark.parametrize(
    ("body", "kind", "decoder", "path"),
    [
        (JSON_LINES, "application/x-ndjson", {"type": "JsonlDecoder"}, []),
        (JSON_LINES.splitlines()[0], "application/jsonl; charset=utf-8", {"type": "JsonlDecoder"}, []),
        (JSON_LINES, "application/json", {"type": "JsonlDecoder"}, []),
        (gzip.compress(JSON_LINES), "", {"type": "GzipDecoder", "decoder": {"type": "JsonlDecoder"}}, []),
        (
            gzip.compress(orjson.dumps({"rows": ROWS[:5]})),
            "application/gzip",
            {"type": "GzipDecoder", "decoder": {"type": "JsonDecoder"}},
            ["rows"],
        ),
    ],
)
def test_lines_of_json_and_gzip_files_get_their_decoder(
    tmp_path: Path, body: bytes, kind: str, decoder: dict[str, Any], path: list[str]
) -> None:
    def answer(request: Request) -> Response:
        page = body if "page=1" in request.full_url or "page" not in request.full_url else b""
        return Response(200, Headers({"Content-Type": kind}), page, request.full_url, request)

    api = MockApi()
    api.get("/rows").answers(answer)
    draft = draft_of_answers("curl https://api.test/rows", transport=api)

    retriever = stream_of(draft)["retriever"]
    assert (retriever["decoder"], retriever["record_selector"]["extractor"]["field_path"]) == (decoder, path)
    assert any(guess.what.startswith("decoder: ") for guess in draft.streams[0].guesses)
    new_connector("shop", "yaml", tmp_path, draft)
    run = read(tmp_path / "manifest.yaml", transport=api)
    assert run.error is None
    assert len(run.records) == (1 if body.startswith(b"{") and b"\n" not in body else 5)
    subprocess.run([sys.executable, "-m", "pytest", "-q", tmp_path], check=True, capture_output=True)


TOKEN = "curl -X POST https://api.test/oauth/token -u app:s3cret-1234 -d grant_type=client_credentials"
SESSION = """curl https://api.test/v1/login --json '{"user": "ann", "password": "s3cret-1234"}'"""
ORDERS = "curl -H 'Authorization: Bearer pasted-token-12345678' https://api.test/v1/orders"


@pytest.mark.parametrize(
    ("command", "path", "body", "found"),
    [
        (TOKEN, "/oauth/token", {"refresh_token": "no", "access_token": "t-1", "expires_in": 60}, ["access_token"]),
        (SESSION, "/v1/login", {"session": {"token": "t-1"}}, ["session", "token"]),
    ],
)
def test_a_command_that_requests_a_token_becomes_the_login_of_the_others(
    tmp_path: Path, command: str, path: str, body: Any, found: list[str]
) -> None:
    api = Shop(token="t-1")
    login = api.post(path).returns(json=body)
    draft = draft_of_answers(command, ORDERS, transport=api)

    stream = stream_of(draft)
    authenticator = stream["retriever"]["requester"]["authenticator"]
    assert (stream["name"], authenticator["type"]) == ("orders", "SessionTokenAuthenticator")
    assert authenticator["session_token_path"] == found
    assert authenticator["expiration_duration"] == ("PT60S" if "expires_in" in body else "PT1H")
    assert "access_token" not in draft.config.properties
    assert all("s3cret" not in text and "pasted" not in text for text in (manifest_text(draft), str(draft.guesses)))
    new_connector("shop", "yaml", tmp_path, draft)
    config = dict.fromkeys(draft.config.properties, "s3cret-1234")
    run = read(tmp_path / "manifest.yaml", config=config, transport=api)
    assert (run.error, len(run.records)) == (None, len(ROWS))
    assert login.requests[-1].body
    subprocess.run([sys.executable, "-m", "pytest", "-q", tmp_path], check=True, capture_output=True)


def test_a_login_without_a_token_or_without_a_command_for_records_is_refused() -> None:
    api = Shop()
    api.post("/oauth/token").returns(json={"ok": True})

    with pytest.raises(ConfigError, match=r"found no token in the response to POST /oauth/token, expected a field"):
        draft_of_answers(TOKEN, ORDERS, transport=api)
    with pytest.raises(ConfigError, match=r"requests a token, and no records: pass the command that reads records"):
        draft_of_answers(TOKEN, transport=api)
