"""Exchanges for display: without secrets in URL, headers and bodies, and with shortened bodies."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from cdk.base.errors import DecodeError
from cdk.base.secret_masking import HIDDEN, SHORTEST, Secrets
from cdk.base.secret_names import looks_secret, surely_secret
from cdk.base.values import JsonValue
from cdk.protocol.reports import error_text
from cdk.rest.http.messages import Response
from cdk.rest.http.redact import safe_url
from cdk.rest.records.decoders.packed_formats import gunzipped
from cdk.rest.tracing import Exchange

_SEARCHED = 2**16
"""Characters of a body after the displayed ones that are searched for secrets, too."""

# A member of a possibly truncated JSON object, and a field of a form: all before the value, the name, the value.
_MEMBER = re.compile(r'("([^"\\]{1,100})"\s*:\s*)("(?:[^"\\]|\\.)*"?|\d[\d.]*)')
_PAIR = re.compile(r"((?:^|(?<=&))([\w.\-\[\]%]{1,100})=)([^&\s]*)")


def learn_secrets(exchanges: Iterable[Exchange], secrets: Secrets) -> None:
    """Add the secret values of the requests to `secrets`, which masks them in responses and records, too."""
    for exchange in exchanges:
        secrets.add(*(value for value in exchange.request.secret_values() if len(value) >= SHORTEST))


def exchange_json(exchange: Exchange, secrets: Secrets, most: int) -> Mapping[str, JsonValue]:
    """Return an exchange as JSON without secrets. most: the most characters of a body to show."""
    request, outcome = exchange.request, exchange.outcome
    sent = request.body.decode(errors="replace") if request.body else ""
    # A login's response has a `token`; in records, `key` and `token` can name anything.
    named = looks_secret if request.hide(sent) != sent or secrets.holds(sent) else surely_secret
    shown: dict[str, JsonValue] = {
        "request": {
            "method": request.method,
            "url": secrets.mask(safe_url(request.full_url, request.secret)),
            "headers": _headers(request.headers, secrets, request.secret),
            "body": shortened(sent, secrets, most),
        },
        "seconds": round(exchange.seconds, 3),
    }
    match outcome:
        case Response():
            shown["response"] = {
                "status": outcome.status,
                "headers": _headers(outcome.headers, secrets),
                "bytes": None if outcome.is_stream else len(outcome.body),
                "body": "" if outcome.is_stream else shortened(_text(outcome, most), secrets, most, named),
            }
            if outcome.url != request.full_url:
                shown["redirected_to"] = secrets.mask(safe_url(outcome.url, request.secret))
        case error:
            shown["error"] = secrets.mask(error_text(error))
    return shown


def _text(response: Response, most: int) -> str:
    """The text of a body; of a gzip file, the start of its content."""
    body = b""
    with suppress(DecodeError):
        for piece in gunzipped(response):
            body += piece
            # A character has up to four bytes.
            if len(body) >= 4 * (most + _SEARCHED):
                break
    return replace(response, body=body or response.body).text


def shortened(body: str, secrets: Secrets, most: int, named: Callable[[str], bool] = looks_secret) -> str:
    """Return the first `most` characters of a body, without secrets. named: whether a field name marks a secret."""
    text = body[: most + _SEARCHED]
    text = (_MEMBER if text.lstrip()[:1] in {"{", "["} else _PAIR).sub(partial(_hidden, named), text)
    text = secrets.mask(text)
    return text if len(text) <= most else f"{text[:most]}…"


def _hidden(named: Callable[[str], bool], member: re.Match[str]) -> str:
    head, name, value = member.groups()
    if not named(name):
        return member.group()
    return f'{head}"{HIDDEN}"' if value.startswith('"') else f"{head}{HIDDEN}"


def _headers(
    headers: Mapping[str, str], secrets: Secrets, secret: frozenset[str] = frozenset()
) -> Mapping[str, JsonValue]:
    return {
        name: HIDDEN if name.lower() in secret or looks_secret(name) else secrets.mask(str(value))
        for name, value in headers.items()
    }
