import gzip
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from cdk import FatalError
from cdk.rest import Headers, Request, Response
from cdk.testing.cassettes import Cassette, record
from cdk.testing.cassettes.interactions import save
from cdk.testing.cassettes.recording import Recorder
from tests.testing.cassettes.blog import CONFIG, ISSUED, SECRETS, Api, Blog
from tests.testing.cassettes.decoding import spelled

PLANTED = {**SECRETS, **ISSUED, "link": "signed-link-nobody-saw", "record": "a-record"}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cassette") / "blog.yaml"
    save(path, record(Blog(), CONFIG, sends=Api(echo=True).send))
    return path


@pytest.fixture(scope="module")
def found(file: Path) -> str:
    recording = Cassette(file).recording
    return spelled([file.read_text(), *(one.content.decode() for one in recording.interactions)])


def test_the_search_finds_each_planted_secret_in_what_was_not_scrubbed() -> None:
    api = Api(echo=True)
    record(Blog(), CONFIG, sends=api.send)
    echo = orjson.loads(api.send(api.sent[1]).text)["posts"][0]["echo"]

    for name, where in echo.items():
        if name not in {"link", "password", "text", "authorization"}:
            searched = spelled([orjson.dumps(where).decode()])
            assert any(secret in searched for secret in SECRETS.values()), name


@pytest.mark.parametrize("secret", PLANTED.values(), ids=PLANTED)
def test_no_secret_is_in_the_file_however_it_is_encoded(found: str, secret: str) -> None:
    assert secret not in found


def test_what_is_no_secret_stays(file: Path) -> None:
    bodies = [one.content.decode() for one in Cassette(file).recording.interactions]

    assert sum('"key":"BLOG-2-1"' in body for body in bodies) == 3
    assert any('"next":"t-2"' in body for body in bodies)
    assert Cassette(file).config == {**dict.fromkeys(CONFIG, "****"), "base": CONFIG["base"], "client_id": "client"}


def test_a_page_token_that_a_header_names_is_no_secret() -> None:
    def send(request: Request) -> Response:
        last = "_token" in request.full_url
        headers = {} if last else {"Next-Page": "https://a.example/x?_token=a%2Bb%3D%3D"}
        return Response(200, Headers(headers), b'{"data": [{"id": 1}]}', request.full_url, request)

    recorder = Recorder(["s3cret"], send)
    for params in ({}, {"_token": "a+b=="}):
        recorder.send(Request("GET", "https://a.example/x", params))

    urls = [interaction.url for interaction in recorder.recording({}, datetime(2024, 1, 1, tzinfo=UTC)).interactions]
    assert urls == ["https://a.example/x", "https://a.example/x?_token=a%2Bb%3D%3D"]


def test_packed_bodies_are_scrubbed_and_those_that_cannot_be_are_refused() -> None:
    def recorded(body: bytes) -> bytes:
        recorder = Recorder(["s3cret"], lambda request: Response(200, Headers({}), body, request.full_url, request))
        recorder.send(Request("GET", "https://a.example/file"))
        return recorder.recording({}, datetime(2024, 1, 1, tzinfo=UTC)).interactions[0].content

    assert gzip.decompress(recorded(gzip.compress(b"id,key\n1,s3cret\n"))) == b"id,key\n1,****\n"
    assert recorded(b"\xff\x00picture") == b"\xff\x00picture"
    with pytest.raises(FatalError, match=r"GET https://a\.example/file is binary and contains a secret"):
        recorded(b"\xff\x00s3cret")


@pytest.mark.parametrize("headers", [{"Access-Control-Allow-Credentials": "true"}, {"X-Auth": "true"}])
def test_a_header_that_says_true_is_no_secret(headers: Mapping[str, str]) -> None:
    body = b'{"done": true}'
    recorder = Recorder([], lambda request: Response(200, Headers(headers), body, request.full_url, request))
    recorder.send(Request("GET", "https://a.example/tasks"))

    assert recorder.recording({}, datetime(2024, 1, 1, tzinfo=UTC)).interactions[0].content == body


def test_a_secret_that_is_a_number_leaves_json_that_replays() -> None:
    def send(request: Request) -> Response:
        body = b'[{"id": 1, "pin": 12345678, "password": "of-somebody", "names": ["12345678", "Ann"], "open": true}]'
        return Response(200, Headers({}), body, request.full_url, request)

    recorder = Recorder(["12345678"], send)
    recorder.send(Request("GET", "https://a.example/rows"))
    content = recorder.recording({}, datetime(2024, 1, 1, tzinfo=UTC)).interactions[0].content

    expected = {"id": 1, "pin": "****", "password": "****", "names": ["****", "Ann"], "open": True}
    assert orjson.loads(content) == [expected]


def test_a_login_may_return_integers_of_any_size() -> None:
    body = b'{"access_token": "t0ken-of-the-login", "user": 123456789012345678901234}'
    recorder = Recorder(["s3cret"], lambda request: Response(200, Headers({}), body, request.full_url, request))
    recorder.send(Request("POST", "https://a.example/login", body=b"password=s3cret"))

    content = recorder.recording({}, datetime(2024, 1, 1, tzinfo=UTC)).interactions[0].content
    assert content == b'{"access_token":"****","user":123456789012345678901234}'
