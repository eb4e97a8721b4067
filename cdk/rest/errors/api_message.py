"""The error message of an API: the text in a response's body, complete and unchanged."""

from cdk.base.errors import DecodeError
from cdk.base.first_use import lazy_pattern
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response

# The keys under which APIs put error messages, in the order in which they are tried (Airbyte's order).
# fmt: off
KEYS = (
    "message", "messages", "error", "errors", "failures", "failure", "detail", "err", "error_message", "msg",
    "reason", "status_message",
)
# fmt: on

_PLAIN = lazy_pattern(r"[A-Za-z0-9 _.:-]+\Z")


def api_message(response: Response) -> str:
    """Return the API's message, the whole text if the body is not JSON. May contain secrets: do not show it."""
    if is_download(response):
        return ""
    try:
        return find_message(response.json()) or ""
    except DecodeError:
        return response.text


def message_contains(response: Response, text: str) -> bool:
    """Whether the API's message contains `text`."""
    # Searching every record of a successful page for messages takes longer than decoding it. JSON does not escape the
    # characters of `_PLAIN`, so a text that is not in the bytes is not in the message.
    if response.ok and not is_download(response) and _PLAIN.match(text) and text.encode() not in response.body:
        return False
    return text in api_message(response)


def find_message(body: JsonValue, levels: int = 20) -> str | None:
    """Return the message in a JSON body, at the first of KEYS that has one; joins those of a list. levels: depth."""
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


def json_body(response: Response, default: JsonValue = None) -> JsonValue:
    """Return the body as JSON; `default` if it is not JSON, or is a stream."""
    if is_download(response):
        return default
    try:
        body: JsonValue = response.json()
    except DecodeError:
        return default
    return body


def is_download(response: Response) -> bool:
    """Whether the body is a stream that has not been fetched: reading it here would load it into memory."""
    return response.ok and response.is_stream
