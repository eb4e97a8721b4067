"""Parses the responses of token servers: a token, its lifetime, or a refusal."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from math import isfinite

from msgspec import Struct

from cdk.base.errors import CredentialsError
from cdk.base.times.clock import parse_timestamp, write_timestamp
from cdk.base.values import JsonValue
from cdk.rest.errors.api_message import json_body
from cdk.rest.errors.status_errors import error_text
from cdk.rest.http.messages import Response

REJECTION_STATUSES = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
"""Statuses with which a server rejects credentials."""
_DEEPEST = 5
_USUAL_LIFE = timedelta(hours=1)
_MARGIN = timedelta(seconds=30)
_ISO = "%Y-%m-%dT%H:%M:%SZ"


class Refusal(Struct, frozen=True):
    """Responses, besides 400, 401 and 403, that mean that the credentials are invalid.

    statuses: such a response is a refusal if `key` in its body, at any depth, has one of `values`, or if there is no
    `key`.
    """

    statuses: Collection[int] = ()
    key: str = ""
    values: Collection[str] = ()

    def is_in(self, response: Response) -> bool:
        if response.status in REJECTION_STATUSES:
            return True
        if response.status not in self.statuses:
            return False
        return not self.key or str(find(json_body(response), self.key)) in self.values

    def check(self, response: Response) -> None:
        """Raise CredentialsError if a response is a refusal."""
        if self.is_in(response):
            detail = error_text(response)
            raise CredentialsError(
                f"{response.request} refused to issue an access token "
                f"({response.status}{f': {detail}' if detail else ''}); check client id and secret, and re-authenticate"
            )


def find(body: JsonValue, name: str, depth: int = _DEEPEST) -> JsonValue:
    """Return the first value of a field `name` that is not null, in objects and lists up to `depth` levels deep."""
    if type(body) is dict and body.get(name) is not None:
        value: JsonValue = body[name]
        return value
    inner = body.values() if type(body) is dict else body if type(body) is list else ()
    if depth <= 1:
        return None
    # A list does not count as a level.
    deeper = depth if type(body) is list else depth - 1
    return next((match for part in inner if (match := find(part, name, deeper)) is not None), None)


def expiry(value: JsonValue, pattern: str | None, now: datetime) -> datetime:
    """Return when a token expires, according to a server's `value`: seconds from now, or a timestamp.

    pattern: the format of timestamps. Without a usable value, the token expires an hour from now.
    """
    if pattern is not None and (timestamp := parse_timestamp(value, (pattern,))) is not None:
        return timestamp
    try:
        seconds = float(str(value))
        return now + timedelta(seconds=seconds if isfinite(seconds) else 0)
    except (ValueError, OverflowError):
        return parse_timestamp(value, ()) or now + _USUAL_LIFE


def usable_until(expires: datetime, now: datetime) -> datetime:
    """Return until when to use a token: before `expires`, to allow for requests in flight and clock differences."""
    return expires - min(_MARGIN, max(timedelta(), (expires - now) / 10))


def saved_expiry(value: JsonValue, pattern: str | None) -> datetime | None:
    """Parse a timestamp of a config, by `pattern`, as ISO 8601 or as seconds since 1970; None if that fails."""
    patterns: Sequence[str] = ("%s",) if pattern is None else (pattern, "%s")
    return parse_timestamp(value, patterns)


def written_expiry(timestamp: datetime, pattern: str | None) -> JsonValue:
    """Format a timestamp for a config."""
    return write_timestamp(timestamp, pattern or _ISO)
