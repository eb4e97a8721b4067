"""Exchanges as people see them: no secret anywhere, and short."""

import gzip
import json
from urllib.parse import urlencode

import pytest

from cdk import Timeout
from cdk.authoring.exchanges import exchange_json, learn_secrets, shortened
from cdk.base.secret_masking import Secrets
from cdk.rest import Request
from cdk.rest.tracing import Exchange
from tests.rest.api import response

SECRET = "s3cr3t-of-mine"
REQUEST = Request(
    "POST",
    f"https://user:{SECRET}@api.test/users",
    {"api_key": SECRET, "page": 2},
    {"Authorization": f"Bearer {SECRET}", "Accept": "*/*"},
    urlencode({"grant_type": "refresh", "refresh_token": SECRET}).encode(),
)
ANSWER = response(
    {"access_token": "new-and-unknown", "token_type": "Bearer", "next_page_token": "abc", "echo": SECRET},
    headers={"Set-Cookie": "session=new-and-unknown", "X-Echo": SECRET},
    request=REQUEST,
)


def test_no_secret_is_in_the_url_the_headers_and_the_bodies() -> None:
    secrets, exchange = Secrets(), Exchange(REQUEST, ANSWER, 0.25)

    learn_secrets([exchange], secrets)
    shown = exchange_json(exchange, secrets, 1000)

    assert SECRET not in json.dumps(shown)
    assert "new-and-unknown" not in json.dumps(shown)
    assert shown == {
        "request": {
            "method": "POST",
            "url": "https://api.test/users?api_key=****&page=2",
            "headers": {"Authorization": "****", "Accept": "*/*"},
            "body": "grant_type=refresh&refresh_token=****",
        },
        "response": {
            "status": 200,
            "headers": {"set-cookie": "****", "x-echo": "****"},
            "bytes": len(ANSWER.body),
            "body": '{"access_token":"****","token_type":"Bearer","next_page_token":"abc","echo":"****"}',
        },
        "seconds": 0.25,
    }


def test_a_gzip_file_is_shown_by_its_content_without_secrets() -> None:
    asked = Request("GET", "https://api.test/export")
    secrets = Secrets([SECRET])
    whole = gzip.compress(json.dumps([{"id": 1, "echo": SECRET}]).encode())

    for body in (whole, whole[:-4]):
        exchange = Exchange(asked, response(body=body, request=asked), 0.0)
        shown = exchange_json(exchange, secrets, 1000)["response"]
        assert shown["body"] == '[{"id": 1, "echo": "****"}]'  # type: ignore[index, call-overload] # an object
        assert shown["bytes"] == len(body)  # type: ignore[index, call-overload] # an object


def test_a_field_of_a_record_is_no_secret_for_its_name() -> None:
    asked = Request("GET", "https://api.test/issues", {"key": SECRET})
    exchange = Exchange(asked, response([{"key": "ABC-1", "token": "free", "password": "pw-12"}], request=asked), 0.0)

    shown = json.dumps(exchange_json(exchange, Secrets(), 1000))

    assert SECRET not in shown
    assert json.dumps('[{"key":"ABC-1","token":"free","password":"****"}]') in shown


def test_a_request_without_response_has_the_error() -> None:
    shown = exchange_json(Exchange(REQUEST, Timeout("no response in time"), 1.0), Secrets(), 10)

    assert "no response in time" in str(shown["error"])
    assert "response" not in shown


def test_a_response_from_elsewhere_says_where_it_came_from() -> None:
    asked = Request("GET", "https://api.test/old")
    moved = response({}, request=Request("GET", "https://api.test/new?token=abcdef")).with_request(asked)

    shown = exchange_json(Exchange(asked, moved, 0.0), Secrets(), 10)

    assert shown["redirected_to"] == "https://api.test/new?token=****"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", ""),
        ("0123456789", "0123456789"),
        ("0123456789a", "0123456789…"),
        ('{"pin":"a", "password" : "b\\"c"}', '{"pin":"a"…'),
        ('[{"password":1}]', '[{"passwor…'),
    ],
)
def test_a_body_is_cut_after_so_many_characters(body: str, text: str) -> None:
    assert shortened(body, Secrets(), 10) == text


def test_a_secret_is_hidden_before_a_body_is_cut() -> None:
    assert shortened(f'{{"password": "{"x" * 100_000}', Secrets(), 20) == '{"password": "****"'
    assert shortened('{"a": 1, "secret": 12345}', Secrets(), 100) == '{"a": 1, "secret": ****}'
    assert shortened(f"sent {SECRET} back", Secrets([SECRET]), 10) == "sent **** …"
