import pickle
from pathlib import Path

import pytest

from cdk.base.errors import ConfigError
from cdk.rest import Headers, OAuth2, Request, Response, RestSource, SinglePage, resource
from cdk.testing import read
from cdk.testing.cassettes import Cassette, Unrecorded, record
from cdk.testing.cassettes.interactions import Interaction, Recording, save
from tests.testing.cassettes.blog import CONFIG, Api, Blog


def get(url: str, content: str = "", status: int = 200, body: bytes | None = None) -> Interaction:
    return Interaction("POST" if body else "GET", url, {}, body, status, {}, content.encode())


@pytest.fixture
def cassette(tmp_path: Path) -> Cassette:
    save(tmp_path / "blog.yaml", record(Blog(), CONFIG, sends=Api().send))
    return Cassette(tmp_path / "blog.yaml")


@pytest.mark.parametrize("secret", ["****", "another-secret"])
def test_a_cassette_reads_without_the_network_and_the_secrets(cassette: Cassette, secret: str) -> None:
    config = {**cassette.config, "api_key": secret, "client_secret": secret}

    with cassette.playing():
        run = read(Blog(), config=config)

    assert run.error is None
    assert [record["id"] for record in run.records][:3] == ["all-1-0", "all-1-1", "all-2-0"]
    assert len(run.records) == 6 * 3


@pytest.mark.parametrize("own_config", [False, True])
@pytest.mark.parametrize("secret", ["cid-555444", 'pa55+/"wörd&=', "a b%20c"])
def test_a_login_with_secrets_in_a_form_is_answered(secret: str, *, own_config: bool) -> None:
    source = RestSource(
        "https://api.test",
        resource("things", "/things", records_path="items", primary_key="id", paginator=SinglePage()),
        auth=OAuth2("https://api.test/token", client_id="{config.client_id}", client_secret="{config.client_secret}"),
    )
    config = {"client_id": secret, "client_secret": f"{secret}-2"}

    def send(request: Request) -> Response:
        content = b'{"access_token": "acc-tok-112233445566"}' if request.method == "POST" else b'{"items": [{"id": 1}]}'
        headers = Headers({"Content-Type": "application/json"})
        return Response(200, headers, content, request.full_url, request)

    cassette = Cassette(record(source, config, sends=send))
    run = read(source, config=config if own_config else cassette.config, transport=cassette)

    assert (run.error, run.records) == (None, [{"id": 1}])
    assert secret not in repr(cassette.recording)


def test_what_stands_for_a_secret_is_any_value_where_one_request_alone_fits() -> None:
    one, two = (get(f"http://a/x?k=****&p={n}", str(n)) for n in (1, 2))
    cassette = Cassette(Recording([one, two]))

    assert cassette.send(Request("GET", "http://a/x", params={"k": "of-mine", "p": 2})).text == "2"
    for params in ({"k": "of-mine", "p": 3}, {"k": "of-mine"}, {"l": "of-mine", "p": 2}):
        with pytest.raises(Unrecorded):
            cassette.send(Request("GET", "http://a/x", params=params))


def test_what_stands_for_a_secret_in_a_form_is_decoded_so_that_longer_forms_are_others() -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    forms = [
        Interaction("POST", "http://a/x", headers, body, 200, {}, body) for body in (b"who=****", b"who=****&page=2")
    ]

    for form in forms:
        sent = Request("POST", "http://a/x", headers=headers, body=(form.body or b"").replace(b"*", b"%2A"))
        assert Cassette(Recording(forms)).send(sent).body == form.body


def test_a_read_goes_on_from_each_state_of_the_recorded_one(cassette: Cassette) -> None:
    with cassette.playing():
        states = read(Blog(), "posts", config=cassette.config).state_messages
        run = read(Blog(), "posts", config=cassette.config, state=states)

    assert run.error is None


def test_what_is_answered_differently_later_is_so_in_a_replay() -> None:
    cassette = Cassette(Recording([get("http://a/job", "runs"), get("http://a/job", "done")]))

    answers = [cassette.send(Request("GET", "http://a/job")).text for _ in range(3)]

    assert answers == ["runs", "done", "done"]
    copy = pickle.loads(pickle.dumps(cassette))  # noqa: S301 - our own
    assert copy.send(Request("GET", "http://a/job")).text == "runs"


def test_parameters_have_no_order_and_json_no_blanks() -> None:
    cassette = Cassette(Recording([get("http://a/x?b=2&a=1", "one"), get("http://a/x", "two", body=b'{"a":1,"b":2}')]))

    assert cassette.send(Request("GET", "http://a/x", params={"a": 1, "b": 2})).text == "one"
    assert cassette.send(Request("POST", "http://a/x", body=b'{"b": 2, "a": 1}')).text == "two"


def test_an_unrecorded_request_is_an_error_that_names_the_nearest(cassette: Cassette) -> None:
    path = cassette.recording.interactions[1].url.partition("?")[0]

    with pytest.raises(Unrecorded) as error:
        cassette.send(Request("GET", path, {"api_key": "s3cret-value", "token": "t-9", "author": "ann"}))

    assert "the nearest is GET https://blog.example/****/posts?" in error.value.message
    assert "(parameter token 't-9', recorded 't-" in error.value.message
    assert "s3cret-value" not in error.value.message


def test_what_is_ignored_is_not_compared() -> None:
    recording = Recording([get("http://a/x?nonce=1", "one")])

    with pytest.raises(Unrecorded):
        Cassette(recording).send(Request("GET", "http://a/x", {"nonce": 2}))
    assert Cassette(recording, ignore=["nonce"]).send(Request("GET", "http://a/x", {"nonce": 2})).text == "one"


@pytest.mark.parametrize("text", ["", "{", "- 1", "version: 1\ninteractions: [{}]"])
def test_what_is_no_cassette_is_an_error_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "no.yaml").write_text(text)

    with pytest.raises(ConfigError, match=r"(?s)no\.yaml: .*record"):
        Cassette(tmp_path / "no.yaml")


def test_a_cassette_that_vcrpy_wrote_is_one(tmp_path: Path) -> None:
    (tmp_path / "theirs.yaml").write_text(
        "version: 1\ninteractions:\n- request: {method: GET, uri: 'http://a/x', body: null, headers: {}}\n"
        "  response: {status: {code: 404, message: Not Found}, headers: {ETag: ['1']}, body: {string: gone}}\n"
    )

    response = Cassette(tmp_path / "theirs.yaml").send(Request("GET", "http://a/x"))

    assert (response.status, response.text, response.headers["etag"]) == (404, "gone", "1")
