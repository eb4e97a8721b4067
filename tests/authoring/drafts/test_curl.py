"""A curl command becomes a stream that sends the same, and what may be a secret in it is in no file."""

import shlex
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdk.authoring.drafts.curl import draft_of_curl
from cdk.authoring.drafts.manifest_text import manifest_text
from cdk.authoring.drafts.merging import drafted_streams
from cdk.authoring.new_connector import new_connector
from cdk.base.errors import ConfigError
from cdk.base.values import Json, from_json, to_json
from cdk.base.yaml_file import YamlFile
from cdk.rest import Request
from cdk.testing import MockApi, Route, read

SECRET = "hunter2-of-the-tests"
URL = "https://api.example.com/v1/orders"
ROWS = [{"id": n} for n in range(5)]


def requester(command: str) -> Json:
    (stream,) = draft_of_curl(command).streams
    retriever: Json = stream.component["retriever"]
    return retriever["requester"]


@pytest.mark.parametrize(
    ("options", "fields", "sent"),
    [
        (f"-H 'Authorization: Bearer {SECRET}'", {"access_token": SECRET}, {"Authorization": f"Bearer {SECRET}"}),
        (f"--oauth2-bearer {SECRET}", {"access_token": SECRET}, {"Authorization": f"Bearer {SECRET}"}),
        (f"-H 'Authorization: Token {SECRET}'", {"api_key": SECRET}, {"Authorization": f"Token {SECRET}"}),
        (f"-H 'Authorization: key={SECRET} x'", {"api_key": f"key={SECRET} x"}, {"Authorization": f"key={SECRET} x"}),
        (f"-H 'X-Tenant: {SECRET}' -A me -sSL", {"x_tenant": SECRET}, {"X-Tenant": SECRET}),
        (f"-b 'session={SECRET}; a=b'", {"cookie": f"session={SECRET}; a=b"}, {"Cookie": f"session={SECRET}; a=b"}),
    ],
)
def test_what_a_command_sends_is_read_with_its_secrets_in_the_config(
    tmp_path: Path, options: str, fields: Json, sent: dict[str, str]
) -> None:
    draft = draft_of_curl(f"curl {options} \\\n '{URL}?page=1&per_page=2&state=open'")
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(manifest_text(draft))
    api = MockApi()
    api.get("/v1/orders", {"state": "open", "per_page": "2"}, headers=sent).serves(ROWS, size=2)

    run = read(manifest, config=fields, transport=api)

    assert (run.error, run.records_of("orders")) == (None, ROWS)
    assert draft.config.required == list(fields)


@pytest.mark.parametrize(
    ("options", "method", "body"),
    [
        ("-d a=1 -d b=x%20y", "POST", b"a=1&b=x+y"),
        ("""--json '{"filter": {"state": "open", "n": [1]}}'""", "POST", b'{"filter":{"state":"open","n":[1]}}'),
        ("-X PUT --data-urlencode 'q=a&b'", "PUT", b"q=a%26b"),
        ("--data-raw '@a=1'", "POST", b"%40a=1"),
        ("-d ''", "POST", None),
        (r"""--json $'{"a": "it\'s \u0021\x21\xc3\xa9\\n."}'""", "POST", '{"a":"it\'s !!é\\n."}'.encode()),
    ],
)
def test_data_is_a_body(tmp_path: Path, options: str, method: str, body: bytes | None) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(manifest_text(draft_of_curl(f"curl {options} {URL}")))
    api = MockApi()
    api.add(Route(method, "/v1/orders")).returns(json=ROWS)

    run = read(manifest, transport=api)

    assert (run.records, [request.body for request in api.requests]) == (ROWS, [body])


# fmt: off
LOOK_LIKE_OTHERS = (
    "3", "1.10", "1e5", "True", "None", "", "null", "007", "1_0", " 3", "2024-01-02", "[1]", '{"a":1}', "(1,)", "a\n",
    "{{ 1 * 1 }}", "{% if x %}", "{# x", "'{{ x }}'", "#/definitions/streams", "'a'", '"a"', r"\n", "}}", "x=1,",
)
# fmt: on
STRINGS = st.sampled_from(LOOK_LIKE_OTHERS) | st.text(st.characters(codec="utf-8"), max_size=8)
NAMES = st.one_of(
    st.sampled_from(["a", "type", "$ref", "$parameters", "{{ x }}", "token", "password", "x_key"]),
    st.text("abc", min_size=1, max_size=3),
)
VALUES = st.recursive(
    STRINGS | st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.floats(allow_nan=False, width=32),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def sent(command: str) -> Request:
    """What the draft of a command sends first."""
    draft, api = draft_of_curl(command), MockApi()
    api.add(Route("POST", "/v1/orders")).returns(json=ROWS)
    with TemporaryDirectory() as folder:
        manifest = Path(folder) / "manifest.yaml"
        manifest.write_text(manifest_text(draft), encoding="utf-8")
        run = read(manifest, config=draft.config.values, transport=api)
    assert run.error is None
    return api.requests[0]


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_the_json_of_a_command_is_sent_as_it_is(body: Json) -> None:
    request = sent(f"curl --json {shlex.quote(to_json(body).decode())} {URL}")

    assert to_json(from_json(request.body or b"")) == to_json(body)


@example({"a": "\x85"}, {"b": "\u2028"}, "messag")
@settings(max_examples=40, deadline=None)
@given(st.dictionaries(NAMES, STRINGS, min_size=1, max_size=4), st.dictionaries(NAMES, STRINGS, max_size=4), STRINGS)
def test_the_form_the_parameters_and_the_headers_of_a_command_are_sent_as_they_are(
    form: dict[str, str], query: dict[str, str], header: str
) -> None:
    value = " ".join("".join(each for each in header if " " <= each <= "~").split())
    data, url = shlex.quote(urlencode(form)), shlex.quote(f"{URL}?{urlencode(query)}")

    request = sent(f"curl -d {data} -H {shlex.quote(f'X-Version: {value}')} {url}")

    assert dict(parse_qsl((request.body or b"").decode(), keep_blank_values=True)) == form
    assert request.params == query
    assert request.headers.get("X-Version", "") == value


def test_a_slash_at_the_end_of_a_path_is_sent() -> None:
    paths = [requester(f"curl https://api.example.com{path}")["path"] for path in ("", "/", "/orders/", "/orders")]

    assert paths == ["/", "/", "/orders/", "/orders"]


def test_escapes_in_a_path_are_sent_as_they_are(tmp_path: Path) -> None:
    url = "https://api.example.com/projects/group%2Fproject%3F/issues"
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(manifest_text(draft_of_curl(f"curl {url}")))
    api = MockApi()
    api.get("/projects/group%2Fproject%3F/issues").returns(json=ROWS)

    run = read(manifest, transport=api)

    assert (run.records_of("issues"), [request.url for request in api.requests]) == (ROWS, [url])


@pytest.mark.parametrize(
    ("accept", "sent"),
    [
        ("application/vnd.github.v3+json", {"Accept": "application/vnd.github.v3+json"}),
        ("text/html,application/xhtml+xml", None),
        ("*/*", None),
    ],
)
def test_a_header_selects_the_version_of_an_api(accept: str, sent: Json) -> None:
    assert requester(f"curl -H 'Accept: {accept}' {URL}").get("request_headers") == sent


def test_data_of_a_get_is_parameters() -> None:
    assert requester(f"curl -G -d state=open --url {URL}") == {
        "type": "HttpRequester",
        "url_base": "https://api.example.com",
        "path": "/v1/orders",
        "http_method": "GET",
        "request_parameters": {"state": "open"},
    }


@pytest.mark.parametrize(
    "command",
    [
        f"curl https://me:{SECRET}@api.example.com/orders",
        f"curl -u me:{SECRET} {URL}",
        f"curl -H 'Authorization: Basic {b64encode(f'me:{SECRET}'.encode()).decode()}' {URL}",
        f"curl '{URL}?api_key={SECRET}'",
        "curl 'https://api.example.com/orders?appid=0f3c9a7b6d5e4f3a2b1c0d9e'",
        "curl https://api.example.com/bot123456:0f3c9a7b6d5e4f3a2b1c0d9e/orders",
        "curl https://api.example.com/bot123456%3A0f3c9a7b6d5e4f3a2b1c0d9e/orders",
        f'curl --json \'{{"auth": {{"password": "{SECRET}"}}}}\' {URL}',
        'curl --json \'{"a": {"none": null, "for": ["0f3c9a7b6d5e4f3a2b1c0d9e"]}}\' ' + URL,
        f"curl -d client_secret={SECRET} {URL}",
        f"curl -H 'Cookie: sid={SECRET}' {URL}",
    ],
)
def test_no_secret_is_in_any_file(tmp_path: Path, command: str) -> None:
    draft = draft_of_curl(command)
    new_connector("shop-api", "yaml", tmp_path, draft)
    files = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())

    assert draft.config.required
    assert not [secret for secret in (SECRET, "0f3c9a7b", "bWU6") if secret in files]
    assert any("written nowhere" in guess.why for guess in draft.streams[0].guesses)


def test_a_second_command_adds_its_stream(tmp_path: Path) -> None:
    new_connector("shop-api", "yaml", tmp_path, draft_of_curl(f"curl -u a:b {URL}"))
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(manifest.read_text().replace("/v1/orders", "/v2/orders"))

    written = new_connector("shop-api", "yaml", tmp_path, draft_of_curl("curl https://api.example.com/v1/users?key=x"))
    api = MockApi()
    api.get("/v2/orders").returns(json=ROWS)
    api.get("/v1/users", {"key": "k"}).returns(json=[{"id": "u"}])
    run = read(manifest, config={"username": "a", "password": "b", "key": "k"}, transport=api)

    assert (run.error, run.records_of("orders"), run.records_of("users")) == (None, ROWS, [{"id": "u"}])
    assert written.notes == [
        "new: users, spec.connection_specification.properties.key",
        "changed by hand, left as it is: orders",
    ]


def test_another_request_gets_another_name_and_the_same_one_its_own(tmp_path: Path) -> None:
    base = "https://api.example.com"
    first, *others = (f"curl {base}/a/items", f"curl {base}/b/items", f"curl {base}/b/items?open=1 -H 'X-Key: k'")
    new_connector("shop-api", "yaml", tmp_path, draft_of_curl(first))
    for command in [*others, *others, first]:
        new_connector("shop-api", "yaml", tmp_path, draft_of_curl(command, beside=drafted_streams(tmp_path)))

    manifest: Json = YamlFile.load(tmp_path / "manifest.yaml").value
    requests = {name: each["retriever"]["requester"] for name, each in manifest["definitions"]["streams"].items()}
    assert {name: (each["path"], "request_parameters" in each) for name, each in requests.items()} == {
        "items": ("/a/items", False),
        "b_items": ("/b/items", False),
        "items_2": ("/b/items", True),
    }
    at_once = draft_of_curl(first, *others, first)
    assert [stream.name for stream in at_once.streams] == list(requests)
    assert at_once.config.required == manifest["spec"]["connection_specification"]["required"] == ["x_key"]


def test_what_is_sent_as_the_command_has_it_is_a_guess() -> None:
    account = "2f1c8a1e-0b7d-4f5c-9d3e-1a2b3c4d5e6f"

    (stream,) = draft_of_curl(
        f"curl '{URL}/{account}/items/17?since=2026-01-01T00:00:00Z&day=2026-1&n=20260101'"
    ).streams

    fixed = [guess.what for guess in stream.guesses if "fixed" in guess.what or "as it is" in guess.what]
    assert fixed == [f"`{account}` in the path is fixed", "`17` in the path is fixed", "`since` is sent as it is"]


def test_what_looks_like_an_expression_is_sent_as_it_is(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(manifest_text(draft_of_curl(f"curl {shlex.quote(URL + '?q={{ 1 * 1 }}')}")))
    api = MockApi()
    api.get("/v1/orders", {"q": "{{ 1 * 1 }}"}).returns(json=ROWS)

    assert read(manifest, transport=api).records == ROWS


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("wget https://a", "does not begin with curl"),
        ("curl 'https://a", "No closing quotation"),
        ("curl", "found 0 URLs"),
        ("curl https://a https://b", "found 2 URLs"),
        ("curl https://a | jq .data", r"remove what follows the command, such as `\| jq`"),
        ("curl ftp://a", "the URL of the curl command is invalid"),
        ("curl -d @body.json https://a", "reads its data from a file"),
        ("curl --data-urlencode q@body.txt https://a", "reads its data from a file"),
        ("curl -d plain https://a", "neither a JSON object nor a form"),
        ("curl --json [1] https://a", "is JSON, expected an object"),
        ("curl -F file=@a --form x=y https://a", "found the options -F, --form of curl"),
        ("curl https://a -H", "-H/--header: expected one argument"),
        (f"curl -Ecert.pem:{SECRET} https://a", "found the options -E of curl"),
        # argparse of Python 3.13 separates the options first.
        (f"curl -sFpassword={SECRET} https://a", "ignored explicit argument|found the options -F of curl"),
        (f"curl --silent={SECRET} https://a", "ignored explicit argument"),
        ("curl 'https://a?ids[]=1&ids[]=2'", r"the parameters ids\[\] several times"),
        ("curl -G -d a=1 'https://a?a=2'", "the parameters a several times"),
        ("curl -d a=1 -d a=2 https://a", "the parameters a several times"),
        (r"curl -d $'a=\q' https://a", "found an unknown escape"),
        (r"curl -d $'a=\xff' https://a", "found an unknown escape"),
    ],
)
def test_a_command_that_is_none_is_refused(command: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        draft_of_curl(command)

    assert SECRET not in str(raised.value)
