"""Secrets by their names: of parameters, headers, variables and fields that usually hold one."""

import re

_SECRET_NAME = re.compile(
    r"secret|passw|pwd|api[_-]?key|signature|credential|authorization|cookie"
    r"|(?:access|auth|refresh|id|api|private|oauth|bearer)[_-]?token",
    re.IGNORECASE,
)
# `page_token` and `start_key` are not secret, and error messages are of little use without them.
_BARE_NAME = re.compile(r"(?:^|[_.\-])(?:token|key|sig|auth|jwt|session)$", re.IGNORECASE)
_PAGE_NAME = re.compile(r"page|next|prev|continu|cursor|sync|skip|start|after|before|resum", re.IGNORECASE)
_SORT_KEY = re.compile(r"(?:sort|order|group|primary|foreign|partition|public)[_.\-]?key$", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:ur[li]|endpoint)$", re.IGNORECASE)
_ABOUT = re.compile(r"[_.\-]?(?:ur[li]|endpoint|type)$", re.IGNORECASE)
"""Where credentials come from, or of which kind they are: an `authorization_url`, a `token_type`."""
_POLICY = re.compile(r"access-control-", re.IGNORECASE)
"""Headers that tell browsers what they may do: `Access-Control-Allow-Credentials` is `true`."""


def looks_secret(name: str) -> bool:
    """Whether a parameter or header of this name usually holds a secret."""
    bare = _BARE_NAME.search(name) is not None and _PAGE_NAME.search(name) is None and _SORT_KEY.search(name) is None
    return bare or surely_secret(name)


def surely_secret(name: str) -> bool:
    """Whether it does wherever it is: in records, `key` and `token` are names of anything."""
    if _POLICY.match(name):
        return False
    return _SECRET_NAME.search(name) is not None and _ABOUT.search(name) is None


def names_address(name: str) -> bool:
    """Whether what has this name is an address, such as a `token_url`: no secret, whatever logs in there."""
    return _ADDRESS.search(name) is not None
