"""What an API says went wrong: the text in a response's body, whole and as it came."""

import re

from cdk.base.errors import DecodeError
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response

# The keys under which APIs put what went wrong, in the order in which they are looked up (Airbyte's order).
# fmt: off
KEYS = (
    "message", "messages", "error", "errors", "failures", "failure", "detail", "err", "error_message", "msg",
    "reason", "status_message",
)
# fmt: on

_PLAIN = re.compile(r"[A-Za-z0-9 _.:-]+\Z")


def api_message(response: Response) -> str:
    """The API's words; a body that is not JSON is all words. May hold secrets: to be compared, not shown."""
    if is_download(response):
        return ""
    try:
        return find_message(response.json()) or ""
    except DecodeError:
        return response.text


def message_contains(response: Response, text: str) -> bool:
    """Whether the API's words hold `text`."""
    # Looking through every record of a good page for words takes longer than decoding it. JSON writes these
    # characters as they are, so what is not in the bytes is not in the words.
    if response.ok and not is_download(response) and _PLAIN.match(text) and text.encode() not in response.body:
        return False
    return text in api_message(response)


def find_message(body: JsonValue, levels: int = 20) -> str | None:
    """The words in a JSON body: at the first of KEYS that has any; those of a list, joined. levels: the depth."""
    match body:
        case list() | dict() if levels == 0:
            return None
        case str():
            return body
        case list():
            return ", ".join(text for item in body if (text := find_message(item, levels - 1))) or None
        case dict():
            return next((text for key in KEYS if (text := find_message(body.get(key), levels - 1))), None)
        case _:
            return None


def body_of(response: Response) -> JsonValue:
    """The body as JSON; an empty object when it is none, or is fetched while it is read."""
    if is_download(response):
        return {}
    try:
        body: JsonValue = response.json()
    except DecodeError:
        return {}
    return body


def is_download(response: Response) -> bool:
    """Whether the body is still to be fetched: reading it here would put it into memory."""
    return response.ok and response.is_stream
