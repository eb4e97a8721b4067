"""Recognizes secrets by the names of parameters, headers, variables and fields."""

import re

from cdk.base.first_use import lazy_pattern

_SECRET_NAME = lazy_pattern(
    r"secret|passw|pwd|api[_-]?key|signature|credential|authorization|cookie"
    r"|(?:access|auth|refresh|id|api|private|oauth|bearer)[_-]?token",
    re.IGNORECASE,
)
# `page_token` and `start_key` are not secret, and error messages are of little use without them.
_BARE_NAME = lazy_pattern(r"(?:^|[_.\-])(?:token|key|sig|auth|jwt|session)$", re.IGNORECASE)
_PAGE_NAME = lazy_pattern(r"page|next|prev|continu|cursor|sync|skip|start|after|before|resum", re.IGNORECASE)
_SORT_KEY = lazy_pattern(r"(?:sort|order|group|primary|foreign|partition|public)[_.\-]?key$", re.IGNORECASE)
_ADDRESS = lazy_pattern(r"(?:ur[li]|endpoint)$", re.IGNORECASE)
_ABOUT_SECRET = lazy_pattern(r"[_.\-]?(?:ur[li]|endpoint|type)$", re.IGNORECASE)
"""Names of the origin or the kind of credentials, not of the secret itself: `authorization_url`, `token_type`."""
_POLICY = lazy_pattern(r"access-control-", re.IGNORECASE)
"""Headers with permissions for browsers: `Access-Control-Allow-Credentials` is `true`."""


def looks_secret(name: str) -> bool:
    """Whether a parameter or header of this name usually holds a secret."""
    bare = _BARE_NAME.search(name) is not None and _PAGE_NAME.search(name) is None and _SORT_KEY.search(name) is None
    return bare or surely_secret(name)


def surely_secret(name: str) -> bool:
    """Whether a field of this name holds a secret even in records, where `key` and `token` may hold anything."""
    if _POLICY.match(name):
        return False
    return _SECRET_NAME.search(name) is not None and _ABOUT_SECRET.search(name) is None


def names_address(name: str) -> bool:
    """Whether this is the name of a URL, such as `token_url`, which is not secret even if used for logging in."""
    return _ADDRESS.search(name) is not None
