"""Removes secrets from URLs and from texts of an API before users see them."""

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from cdk.base.secret_masking import HIDDEN, SHORTEST, Secrets
from cdk.base.secret_names import looks_secret


def safe_url(url: str, secret: Collection[str] = ()) -> str:
    """Return `url` for display: without user and password, and with `****` for the values of secret parameters.

    secret: lower-case names of secret parameters, in addition to those that look secret.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "<no URL>"
    if not parts.query and "@" not in parts.netloc:
        return url
    shown = []
    for pair in parts.query.split("&"):
        name = unquote_plus(pair.partition("=")[0])
        hidden = name.lower() in secret or looks_secret(name)
        shown.append(f"{pair.partition('=')[0]}={HIDDEN}" if hidden else pair)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "&".join(shown), ""))


def without_params(url: str, names: Collection[str]) -> str:
    """Return `url` without the query parameters in `names` (lower case)."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=query_without(parts.query, lambda name, _: name.lower() in names)))


def query_without(query: str, drops: Callable[[str, str], bool]) -> str:
    """Return a query without the parameters that `drops` returns true for, given a name and a value. Others stay."""
    remaining = []
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if not drops(unquote_plus(name), unquote_plus(value)):
            remaining.append(pair)
    return "&".join(remaining)


def hide(text: str, values: Iterable[str]) -> str:
    """Mask each of `values` in `text`, in all its encodings. Values that are too short to be a secret stay."""
    return _secrets(frozenset(values)).mask(text)


@lru_cache(maxsize=64)
def _secrets(values: frozenset[str]) -> Secrets:
    return Secrets(values, shortest=SHORTEST)
