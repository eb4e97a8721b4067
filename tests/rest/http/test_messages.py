import copy
import pickle

import pytest

from cdk import DecodeError
from cdk.base.values import Json
from cdk.rest import Headers, Request, Response
from cdk.rest.http.redact import safe_url
from tests.rest.api import response


def test_headers_are_found_whatever_their_case() -> None:
    headers = Headers({"Content-Type": "text/csv"})

    assert headers["content-TYPE"] == "text/csv"
    assert headers.get("X-None") is None


def test_parameters_come_behind_those_of_the_url() -> None:
    request = Request("GET", "https://api.test/a?x=1#part", {"q": "a b&c", "n": None, "id": [1, 2], "deep": True})

    assert request.full_url == "https://api.test/a?x=1&q=a+b%26c&id=1&id=2&deep=true"


def test_a_header_replaces_one_of_the_same_name_in_another_case() -> None:
    request = Request("GET", "https://api.test", headers={"accept": "a"}).with_headers({"Accept": "b"})

    assert request.headers == {"Accept": "b"}


def test_a_request_shows_neither_password_nor_secret_parameters() -> None:
    request = Request("GET", "https://me:pw1@api.test/a?sig=abcd&page=2", {"api_key": "kkkk"})

    shown = str(request.with_params({"k": "told"}, secret=True))

    assert shown == "GET https://api.test/a?sig=****&page=2&api_key=****&k=****"
    assert "kkkk" not in repr(request)


def test_a_url_without_secrets_is_shown_as_it_is() -> None:
    assert safe_url("https://api.test/a?x=%C3%A9&y") == "https://api.test/a?x=%C3%A9&y"
    assert safe_url("https://[no") == "<no URL>"


def test_a_body_is_decoded_once() -> None:
    answer = response({"a": [1]})

    assert answer.json() is answer.json()


@pytest.mark.parametrize("decoded", [False, True])
@pytest.mark.parametrize("json", [{"a": [1]}, None])
def test_a_copied_answer_is_decoded_like_the_first(json: Json, decoded: bool) -> None:  # noqa: FBT001 - parametrized
    answer = response(json)
    if decoded:
        answer.json()

    assert copy.deepcopy(answer).json() == json
    assert pickle.loads(pickle.dumps(answer)).json() == json  # noqa: S301 - made here


def test_a_request_hides_values_that_are_neither_parameter_nor_header() -> None:
    request = Request("POST", "https://api.test/a", body=b"pin=s3cret", hidden=frozenset({"s3cret"}))

    assert request.with_params({"q": 1}).hide("your pin s3cret") == "your pin ****"
    assert "s3cret" not in repr(request)


def test_a_secret_is_hidden_before_a_body_is_cut() -> None:
    asked = Request("GET", "https://api.test/users", headers={"Authorization": "Bearer abcd1234"})

    with pytest.raises(DecodeError) as caught:
        response(body=b"x" * 76 + b"abcd1234", request=asked).json()

    assert "abcd" not in str(caught.value)


def test_a_body_that_is_not_json_is_an_error_that_shows_where_and_what() -> None:
    asked = Request("GET", "https://api.test/users", headers={"Authorization": "Bearer abcd1234"})
    answer = response(body=b"<html>abcd1234", headers={"Content-Type": "text/html"}, request=asked)

    with pytest.raises(DecodeError) as caught:
        answer.json()

    assert "GET https://api.test/users" in str(caught.value)
    assert "text/html" in str(caught.value)
    assert "<html>****" in str(caught.value)


@pytest.mark.parametrize("charset", ["iso-8859-1", "utf-16", "utf-16le", "utf-8"])
def test_json_in_another_charset_is_read_if_the_headers_name_it(charset: str) -> None:
    body, headers = '{"a": "é"}'.encode(charset), {"Content-Type": f"application/json; charset={charset}"}

    assert response(body=body, headers=headers).json() == {"a": "é"}
    if charset != "utf-8":
        for other in ("utf-8", "none-such", "hex"):
            with pytest.raises(DecodeError, match="not JSON"):
                response(body=body, headers={"Content-Type": f"application/json; charset={other}"}).json()


def test_text_follows_the_charset_of_the_headers() -> None:
    assert response(body=b"\xe9", headers={"Content-Type": "text/plain; charset=latin-1"}).text == "é"
    assert response(body="é".encode()).text == "é"
    assert response(body=b"a", headers={"Content-Type": "text/plain; charset=none-such"}).text == "a"


def test_a_parameter_that_is_no_text_in_unicode_is_shown_and_sent() -> None:
    assert Request("GET", "https://a.com/", {"q": "\ud800"}).full_url == "https://a.com/?q=%ED%A0%80"


def cut(body: Json, *where: str) -> Response:
    answer = response(body)
    assert answer.undecoded_records(where) is not None
    return answer


@pytest.mark.parametrize(
    "names", [("next",), ("more", "0"), ("data",), ("data", "0", "id"), ("x", "y"), (), ("*",), ("copy",)]
)
def test_a_value_is_the_same_whether_records_were_cut_out_or_not(names: tuple[str, ...]) -> None:
    body = {"data": [{"id": 1}], "next": {"page": 2}, "more": [True], "copy": [{"id": 1}]}

    assert cut(body, "data").value_at(*names) == response(body).value_at(*names)


def test_a_value_beside_the_records_is_found_without_decoding_them() -> None:
    answer = Response(
        200, Headers(), b'{"data":[{"id":1e999}],"next":2}', "https://api.test", Request("GET", "https://api.test")
    )
    assert answer.undecoded_records(("data",)) is not None

    assert answer.value_at("next") == 2
    assert answer._decoded is None
    assert [str(record["id"]) for record in answer.value_at("data")] == ["1e999"]


def test_a_frame_is_the_body_without_the_records_that_were_cut_out() -> None:
    body = {"page": {"records": [{"next": "of a record"}]}, "next": "u"}
    answer, uncut = cut(body, "page", "records"), response(body)

    assert b"of a record" not in answer.bytes_without_records
    assert answer.body_without_records() == {"page": {"records": []}, "next": "u"}
    assert (uncut.bytes_without_records, uncut.body_without_records()) == (uncut.body, body)


def test_what_was_decoded_already_is_not_cut() -> None:
    answer = response({"data": [{"id": 1}]})
    answer.json()

    assert answer.undecoded_records(("data",)) is None


@pytest.mark.parametrize("body", [b'{"id":%d}', b'{ "id": %d }'])
def test_whole_numbers_of_a_body_keep_every_digit(body: bytes) -> None:
    whole = 12345678901234567890123

    answer = Response(200, Headers({}), body % whole, "https://api.test", Request("GET", "https://api.test"))

    assert answer.json()["id"] == whole
