from typing import Any

import pytest

from cdk.rest import Headers, Request
from cdk.rest.errors.api_message import api_message, json_body, message_contains
from cdk.rest.http.streamed_response import StreamedResponse
from tests.rest.api import response


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"message": "Boom x"}}, "Boom x"),
        ({"errors": [{"detail": "a"}, {"msg": "b"}]}, "a, b"),
        ({"other": "Boom"}, ""),
        (["Boom"], "Boom"),
        ("Boom", "Boom"),
        (None, ""),
    ],
)
def test_the_words_of_a_json_body(body: Any, expected: str) -> None:
    assert api_message(response(body, status=400)) == expected


def test_a_body_that_is_not_json_is_all_words_and_an_empty_object() -> None:
    page = response(body=b"<h1>Boom</h1>", status=502)

    assert api_message(page) == "<h1>Boom</h1>"
    assert (json_body(page), json_body(page, {})) == (None, {})


def test_a_download_is_not_read_to_be_judged() -> None:
    request = Request("GET", "https://api.test/export", stream=True)
    pieces = (piece for piece in [b'{"error": "Boom"}'])
    download = StreamedResponse(200, Headers(), pieces, request.url, request)

    assert (api_message(download), json_body(download, {})) == ("", {})
    assert download.body == b'{"error": "Boom"}'


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    ("body", "text", "expected"),
    [
        (b'{"error": "too many calls"}', "many", True),
        (b'{"error": "too many calls"}', "Many", False),
        (b'{"data": "too many calls"}', "many", False),
        (b'{"error": ["a", "b"]}', "a, b", True),
        (b'{"error": "caf\\u00e9"}', "caf\u00e9", True),
        (b"too many calls", "many", True),
    ],
)
def test_words_are_searched_for_a_text(body: bytes, text: str, status: int, *, expected: bool) -> None:
    assert message_contains(response(body=body, status=status), text) is expected
