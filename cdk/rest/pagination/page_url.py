"""URLs as page tokens, without secrets, so that none get into the state.

Such a URL comes from a response, and later from a saved state. The request's scope decides what may be sent to it.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import urljoin

from msgspec.structs import replace

from cdk.base.errors import BadState
from cdk.base.secret_masking import SecretMarks
from cdk.base.values import Stored
from cdk.rest.http.messages import Request, Response, query_of
from cdk.rest.http.redact import query_without, without_params
from cdk.streams.page import Token


def next_url(response: Response, link: str) -> str:
    """Resolve `link`, which may be relative, to a URL without the secret parameters of the request."""
    request = response.request
    try:
        url = urljoin(response.url, link)
    except ValueError:
        url = link
    return without_params(url, {name.lower() for name in request.params if request.is_secret(name)} | request.secret)


def saved_token(request: Request, token: Stored) -> Stored:
    """Return `token`, which came from a response to `request`, without the request's secrets, so that it may be saved.

    Secret parameters of a URL are removed, as they are added to each request; elsewhere a mark replaces a secret.
    """
    pairs = tuple(dict.fromkeys(_own_secrets(request)))
    return _marks(pairs).cut(_without(token, pairs)) if pairs else token


def restore_secrets(request: Request) -> Request:
    """Return `request`, made from a saved token, with the marks replaced by its current secrets."""
    if _MARK not in request.url and _MARK not in str(request.params) and _BODY_MARK not in (request.body or b""):
        return request
    marks = _marks(tuple(dict.fromkeys(_own_secrets(request))))
    body = request.body if request.body is None else marks.restore(request.body.decode()).encode()
    return replace(request, url=marks.restore(request.url), params=marks.restore(request.params), body=body)


_MARK = "<secret request."
_BODY_MARK = _MARK.encode()


def _own_secrets(request: Request) -> Iterator[tuple[str, str]]:
    for name, value in request.secrets():
        mark, text = f"request.{name.lower()}", str(value)
        yield mark, text
        # `Bearer abc`: the API echoes `abc`.
        scheme, _, credentials = text.partition(" ")
        if credentials and scheme.isalpha():
            yield f"{mark}.credentials", credentials


@lru_cache(maxsize=64)
def _marks(pairs: tuple[tuple[str, str], ...]) -> SecretMarks:
    return SecretMarks(pairs)


def _without(token: Stored, pairs: tuple[tuple[str, str], ...]) -> Stored:
    if isinstance(token, Mapping):
        return {name: _without(value, pairs) for name, value in token.items()}
    if not isinstance(token, str) or "?" not in token:
        return token
    own = {(mark.removeprefix("request."), value) for mark, value in pairs}
    head, _, query = token.partition("?")
    others = query_without(query, lambda name, value: (name.lower(), value) in own)
    # A token need not be a URL: one that ends in `?` has lost nothing.
    return f"{head}?{others}" if others or not query else head


def with_page_url(request: Request, token: Token) -> Request:
    """Return `request` for the URL of a token, which has its own parameters; only the secret ones are added again.

    Raises BadState: when the token has no URL.
    """
    url = token.get("url")
    if not isinstance(url, str):
        raise BadState("page token", dict(token), 'a token like {"url": "https://..."}')
    brought = {name for name, _ in query_of(url)}
    secrets = {name: value for name, value in request.params.items() if request.is_secret(name) and name not in brought}
    # Only the secrets stay: the URL already has the other parameters, which must not be sent twice.
    return replace(request, url=url, params=secrets)
