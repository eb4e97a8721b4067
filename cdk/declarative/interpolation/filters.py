"""Filters of the manifest language, in addition to those of Jinja."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdk.base.bounded_regex import Pattern
from cdk.base.errors import FatalError
from cdk.declarative.interpolation.errors import Refused
from cdk.declarative.interpolation.limits import MAX_TEXT

if TYPE_CHECKING:
    import regex as regex_module


def _hash(value: object, hash_type: str = "md5", salt: str | None = None) -> str:
    """Return the hex digest of the text followed by the salt."""
    if hash_type not in hashlib.algorithms_guaranteed or hash_type.startswith("shake_"):
        raise Refused(
            "hash() does not support this type; use md5, sha1, sha256, sha512 or another algorithm of hashlib"
        )
    digest = hashlib.new(hash_type, str(value).encode(), usedforsecurity=False)
    digest.update(str(salt).encode() if salt else b"")
    return digest.hexdigest()


def _base64encode(value: object) -> str:
    return base64.b64encode(value if isinstance(value, bytes) else str(value).encode()).decode()


def _base64decode(value: str) -> str:
    try:
        return base64.b64decode(value).decode()
    except ValueError:
        raise Refused("base64decode got a string that is not base64-encoded text") from None


def _string(value: object) -> str:
    """Return a string as it is; any other value as JSON in triple quotes, so that it parses as a string literal."""
    return value if isinstance(value, str) else f'"""{json.dumps(value)}"""'


def _regex_search(value: str, regex: str) -> str | None:
    """Return the match of the first group; None if the group did not take part, empty without a match or a group."""
    with _refused():
        match = Pattern(regex).search(value)
    return match[1] if match and match.re.groups else ""


def _regex_replace(value: str, regex: str, replacement: str) -> str:
    size = 0

    def expanded(match: "regex_module.Match[str]") -> str:
        nonlocal size
        text = match.expand(replacement)
        size += len(text)
        if size > MAX_TEXT:
            raise Refused("the result would be too large")
        return text

    with _refused():
        return Pattern(regex).sub(expanded, value)


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except FatalError as error:
        raise Refused(error.message) from None


def _hmac(value: object, key: object, hash_type: str = "sha256") -> str:
    if hash_type != "sha256":
        raise Refused("hmac() supports only the type sha256")
    return hmac.new(str(key).encode(), str(value).encode(), hash_type).hexdigest()


FILTERS: Mapping[str, Callable[..., object]] = {
    "hash": _hash,
    "base64encode": _base64encode,
    "base64decode": _base64decode,
    # Despite its name, this filter encodes: manifests rely on that.
    "base64binascii_decode": _base64encode,
    "string": _string,
    "regex_search": _regex_search,
    "regex_replace": _regex_replace,
    "hmac": _hmac,
}
