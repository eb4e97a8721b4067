"""What people may see of URLs and of texts that came from an API."""

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from cdk.base.secret_masking import HIDDEN, Secrets

_SECRET_NAME = re.compile(
    r"secret|passw|pwd|api[_-]?key|signature|credential|authorization|cookie"
    r"|(?:access|auth|refresh|id|api|private|oauth|bearer)[_-]?token",
    re.IGNORECASE,
)
# `page_token` and `start_key` are not secret, and error messages are of little use without them.
_BARE_NAME = re.compile(r"(?:^|[_.\-])(?:token|key|sig|auth|jwt|session)$", re.IGNORECASE)
_PAGE_NAME = re.compile(r"page|next|prev|continu|cursor|sync|skip|start|after|before|resum", re.IGNORECASE)
_SORT_KEY = re.compile(r"(?:sort|order|group|primary|foreign|partition|public)[_.\-]?key$", re.IGNORECASE)
_ABOUT = re.compile(r"[_.\-]?(?:ur[li]|endpoint|type)$", re.IGNORECASE)
"""Where credentials come from, or of which kind they are: an `authorization_url`, a `token_type`."""
_SHORTEST_SECRET = 4


def looks_secret(name: str) -> bool:
    """Whether a parameter or header of this name usually holds a secret."""
    bare = _BARE_NAME.search(name) is not None and _PAGE_NAME.search(name) is None and _SORT_KEY.search(name) is None
    return bare or surely_secret(name)


def surely_secret(name: str) -> bool:
    """Whether it does wherever it is: in records, `key` and `token` are names of anything."""
    return _SECRET_NAME.search(name) is not None and _ABOUT.search(name) is None


def safe_url(url: str, secret: Collection[str] = ()) -> str:
    """`url` for people: no user and password, and `****` for the parameters that hold a secret.

    secret: names, in lower case, that hold one besides those that look like it.
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
    """`url` without the query parameters called `names` (lower case)."""
    parts = urlsplit(url)
    pairs = [pair for pair in parts.query.split("&") if unquote_plus(pair.partition("=")[0]).lower() not in names]
    return urlunsplit(parts._replace(query="&".join(pairs)))


def hide(text: str, values: Iterable[str]) -> str:
    """`text` with each of `values`, however it is spelled, replaced. Values too short to be a secret stay."""
    return _secrets(frozenset(values)).mask(text)


@lru_cache(maxsize=64)
def _secrets(values: frozenset[str]) -> Secrets:
    return Secrets(values, shortest=_SHORTEST_SECRET)
