"""What a token server answers: a token, how long it lives, or that it refuses."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from math import isfinite

from cdk.base.errors import CredentialsError, DecodeError
from cdk.base.times.clock import parse_timestamp, write_timestamp
from cdk.base.values import JsonValue
from cdk.rest.errors.status_errors import error_text
from cdk.rest.http.messages import Response

REFUSALS = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
"""Statuses with which a server refuses credentials."""
_DEEPEST = 5
_USUAL_LIFE = timedelta(hours=1)
_MARGIN = timedelta(seconds=30)
_ISO = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Responses that say that the credentials are no good, besides 400, 401 and 403.

    statuses: those of which `key` in the body, at any depth, has one of `values`; without a key, all of them.
    """

    statuses: Collection[int] = ()
    key: str = ""
    values: Collection[str] = ()

    def is_in(self, response: Response) -> bool:
        if response.status in REFUSALS:
            return True
        if response.status not in self.statuses:
            return False
        return not self.key or str(find(body_of(response), self.key)) in self.values

    def check(self, response: Response) -> None:
        """Raise CredentialsError for a response that refuses."""
        if self.is_in(response):
            detail = error_text(response)
            raise CredentialsError(
                f"{response.request} refused to give an access token "
                f"({response.status}{f': {detail}' if detail else ''}); check client id and secret, and re-authenticate"
            )


def body_of(response: Response) -> JsonValue:
    """The body as JSON; None when it is none."""
    try:
        body: JsonValue = response.json()
    except DecodeError:
        return None
    return body


def find(body: JsonValue, name: str, depth: int = _DEEPEST) -> JsonValue:
    """The value of the field `name`, the first that is not null, in objects and lists up to `depth` levels deep."""
    if type(body) is dict and body.get(name) is not None:
        value: JsonValue = body[name]
        return value
    inner = body.values() if type(body) is dict else body if type(body) is list else ()
    if depth <= 1:
        return None
    # A list is no level of its own.
    deeper = depth if type(body) is list else depth - 1
    return next((match for part in inner if (match := find(part, name, deeper)) is not None), None)


def expiry(value: JsonValue, pattern: str | None, now: datetime) -> datetime:
    """When a token expires of which a server said `value`: seconds from now, or a moment.

    pattern: how it writes moments. Without a usable value it is an hour from now.
    """
    if pattern is not None and (moment := parse_timestamp(value, (pattern,))) is not None:
        return moment
    try:
        seconds = float(str(value))
        return now + timedelta(seconds=seconds if isfinite(seconds) else 0)
    except (ValueError, OverflowError):
        return parse_timestamp(value, ()) or now + _USUAL_LIFE


def usable_until(expires: datetime, now: datetime) -> datetime:
    """The moment up to which a token is used: requests under way, and clocks, take some time."""
    return expires - min(_MARGIN, max(timedelta(), (expires - now) / 10))


def saved_expiry(value: JsonValue, pattern: str | None) -> datetime | None:
    """The moment that a config holds, in `pattern`, in ISO 8601 or as seconds since 1970; None when it is none."""
    patterns: Sequence[str] = ("%s",) if pattern is None else (pattern, "%s")
    return parse_timestamp(value, patterns)


def written_expiry(moment: datetime, pattern: str | None) -> JsonValue:
    """A moment as a config holds it."""
    return write_timestamp(moment, pattern or _ISO)
