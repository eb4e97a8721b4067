"""Find the recorded request that equals a sent one, and the nearest one to a request that was never recorded."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from difflib import SequenceMatcher
from hashlib import blake2b
from typing import TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson
from msgspec import Struct

from cdk.base.secret_masking import HIDDEN, Secrets
from cdk.base.secret_names import looks_secret, surely_secret
from cdk.base.values import canonical, from_json
from cdk.rest import Request
from cdk.rest.http.messages import query_of
from cdk.testing.cassettes.interactions import Interaction

Pairs: TypeAlias = tuple[tuple[str, str], ...]

_FORM = "application/x-www-form-urlencoded"
# Headers that say when and by which program a request was sent, or which attempt it is.
_VOLATILE = {"date", "x-amz-date", "user-agent", "x-request-id", "idempotency-key", "traceparent", "content-length"}


class RequestIdentity(Struct, frozen=True):
    """What identifies a request: without its secrets, the order of its parameters and the whitespace of its JSON."""

    method: str
    host: str
    path: str
    params: Pairs
    headers: Pairs
    body: str

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.params)
        return f"{self.method} {self.host}{self.path}{'?' if query else ''}{query}"

    def differences(self, recorded: "RequestIdentity") -> Iterator[str]:
        """Describe how this request differs from a recorded one, for people."""
        for what, mine, other in (
            ("method", self.method, recorded.method),
            ("host", self.host, recorded.host),
            ("path", self.path, recorded.path),
        ):
            if mine != other:
                yield f"{what} {mine}, recorded {other}"
        yield from _pair_differences("parameter", self.params, recorded.params)
        yield from _pair_differences("header", self.headers, recorded.headers)
        if self.body != recorded.body:
            yield f"body {self.body[:200] or 'none'}, recorded {recorded.body[:200] or 'none'}"


def sent_identity(
    request: Request, secrets: Secrets, ignored: Collection[str] = (), *, blank: bool = False
) -> RequestIdentity:
    """Return what identifies a request. secrets: masked wherever they occur, in addition to the request's own.

    ignored: parameters and headers that are not compared, in lower case. blank: treat values whose name alone suggests
    a secret as the secret that was recorded. Such a value may as well be a page token, which tells pages apart.
    """
    names = {name.lower() for name in (*request.params, *request.headers, *dict(query_of(request.full_url)))}
    marked = {name for name in names if name in request.secret or surely_secret(name) or (blank and looks_secret(name))}
    tokens = {str(value) for name, value in request.params.items() if name.lower() not in marked}
    own = Secrets(value for value in request.secret_values() if value not in tokens)
    scope = Secrets() if request.scope is None else request.scope.secrets

    def mask(text: str) -> str:
        return own.mask(scope.mask(secrets.mask(text)))

    params = [(name, HIDDEN if name.lower() in marked else mask(value)) for name, value in query_of(request.full_url)]
    headers = [(name, mask(value)) for name, value in request.headers.items() if not request.is_secret(name)]
    return _identity(
        request.method, request.full_url, mask=mask, params=params, headers=headers, body=request.body, ignored=ignored
    )


def recorded_identity(interaction: Interaction, ignored: Collection[str] = ()) -> RequestIdentity:
    """Return what identifies a recorded request."""
    return _identity(
        interaction.method,
        interaction.url,
        mask=str,
        params=query_of(interaction.url),
        headers=interaction.headers.items(),
        body=interaction.body,
        ignored=ignored,
    )


def fits(request: RequestIdentity, known: RequestIdentity) -> bool:
    """Whether a request equals a recorded one except for the text that replaced secrets there."""
    mine, other = ([*each.params, *each.headers] for each in (request, known))
    names = [name for name, _ in mine] == [name for name, _ in other]
    texts = [(request.path, known.path), (request.body, known.body)]
    texts += [(value, hidden) for (_, value), (_, hidden) in zip(mine, other, strict=False)]
    same = names and (request.method, request.host) == (known.method, known.host)
    return same and all(text == hidden or _hides(hidden, text) for text, hidden in texts)


def _hides(hidden: str, text: str) -> bool:
    parts = hidden.split(HIDDEN)
    return len(parts) > 1 and re.fullmatch(".+".join(map(re.escape, parts)), text, re.DOTALL) is not None


def nearest(request: RequestIdentity, known: Iterable[RequestIdentity]) -> RequestIdentity | None:
    """Return the recorded request most similar to `request`; None if there are none."""
    return max(known, key=lambda other: _likeness(request, other), default=None)


def _likeness(a: RequestIdentity, b: RequestIdentity) -> float:
    same = sum(mine == other for mine, other in ((a.method, b.method), (a.host, b.host), (a.body, b.body)))
    shared = sum(_shared(mine, other) for mine, other in ((a.params, b.params), (dict(a.params), dict(b.params))))
    return same + 3 * SequenceMatcher(None, a.path, b.path).ratio() + shared


def _shared(mine: Collection[object], other: Collection[object]) -> float:
    return len({*mine} & {*other}) / max(len({*mine} | {*other}), 1)


def _identity(
    method: str,
    url: str,
    *,
    mask: Callable[[str], str],
    params: Iterable[tuple[str, str]],
    headers: Iterable[tuple[str, str]],
    body: bytes | None,
    ignored: Collection[str],
) -> RequestIdentity:
    parts, leave_out, headers = urlsplit(url), {*_VOLATILE, *ignored}, list(headers)
    kind = next((value for name, value in headers if name.lower() == "content-type"), "")
    return RequestIdentity(
        method,
        f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
        mask(unquote(parts.path)),
        tuple(sorted((name, value) for name, value in params if name.lower() not in ignored)),
        tuple(sorted((name.lower(), value) for name, value in headers if name.lower() not in leave_out)),
        _form(body, mask) if body and kind.startswith(_FORM) else mask(_body(body or b"")),
    )


def _form(body: bytes, mask: Callable[[str], str]) -> str:
    """Return the fields of a form, decoded: the replacement of a secret is encoded differently in the form as sent."""
    fields = parse_qsl(body.decode(errors="replace"), keep_blank_values=True)
    return "&".join(f"{name}={mask(value)}" for name, value in fields)


def _body(body: bytes) -> str:
    """Return a body as text: JSON in canonical form, binary content as its digest."""
    try:
        return canonical(from_json(body)) if body[:1] in b"{[" and body else body.decode()
    except orjson.JSONDecodeError:
        return body.decode()
    except UnicodeDecodeError:
        return blake2b(body, digest_size=16).hexdigest()


def _pair_differences(what: str, mine: Pairs, other: Pairs) -> Iterator[str]:
    mine_by_name, recorded = dict(mine), dict(other)
    for name in sorted({*mine_by_name, *recorded}):
        if mine_by_name.get(name) != recorded.get(name):
            before = f"recorded {recorded[name]!r}" if name in recorded else "recorded without it"
            yield f"{what} {name} {repr(mine_by_name[name]) if name in mine_by_name else 'is missing'}, {before}"
