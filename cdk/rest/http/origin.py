"""The origin of a URL, and the only rule of what may be sent where: secrets stay with the origins of their API.

What matters is where a host is named: the manifest, the stream and the config may add a host to those that receive
secrets; responses of an API (links, redirects, records of a parent) may not.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv6Address

from msgspec import Struct, field
from msgspec.structs import replace

from cdk.base.errors import FatalError
from cdk.base.first_use import lazy_pattern
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue, as_string, walk

_PORTS = {"http": 80, "https": 443}
# URLs that parsers interpret differently (with a backslash, a space, a second @) have no origin.
_HOST = r"\[[0-9a-f:.]+\]|[^/?#\\@:\s\[\]]+"
_URL = lazy_pattern(rf"(https?)://(?:[^/?#\\@\s\[\]]*@)?({_HOST})(?::([0-9]{{0,5}}))?(?=[/?#]|\Z)", re.IGNORECASE)
_RELATIVE = lazy_pattern(r"(?![a-z][a-z0-9+.\-]*:)[a-z0-9]", re.IGNORECASE)
_NAMED_HOST = lazy_pattern(r"([A-Za-z0-9][A-Za-z0-9\-]*(?:\.[A-Za-z0-9\-]+)+)(?::([0-9]{1,5}))?(?=/|$)")
_LABEL = r"[A-Za-z0-9\-_]+"
# Headers that may be sent to any host, as they do not identify the sender.
_NEUTRAL = {"accept", "accept-encoding", "accept-language", "content-type", "user-agent"}


class ForeignHost(FatalError):
    """A request with secrets would be sent to a host that does not belong to the API."""


class Origin(Struct, frozen=True):
    """A scheme, a host and a port; all empty if a URL is not absolute."""

    scheme: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}" + ("" if self.port == _PORTS.get(self.scheme) else f":{self.port}")


def origin(url: str) -> Origin:
    """Return the origin of `url`; empty if it has none, or if parsers might disagree about it."""
    end = url.find("/", len("https://"))
    return _origin(url if end < 0 else url[:end])


@lru_cache(maxsize=64)
def _origin(url: str) -> Origin:
    """Return the origin of a URL without path. Cached: every request is checked, and most have the same origin."""
    match = _URL.match(url)
    if match is None or not _is_host(match[2]):
        return Origin()
    scheme = match[1].lower()
    return Origin(scheme, match[2].lower(), int(match[3] or _PORTS[scheme]))


def is_relative(url: str) -> bool:
    """Whether `url` starts with neither a scheme nor a slash, such as `users/1`."""
    return _RELATIVE.match(url) is not None


def may_follow(old: Origin, new: Origin) -> bool:
    """Whether credentials for `old` may be sent to `new`: the same origin, or the same host upgraded to TLS."""
    return old == new or (old == Origin("http", new.host, 80) and new == Origin("https", old.host, 443))


def named_origins(value: JsonValue) -> Iterator[Origin]:
    """Yield the origins named in strings of `value`, such as a config: those of URLs, and `https` for bare hosts."""
    for _, leaf in walk(value):
        text = as_string(leaf).strip()
        if (named := origin(text)).host:
            yield named
        elif "://" not in text and (match := _NAMED_HOST.match(text)):
            yield Origin("https", match[1].lower(), int(match[2] or _PORTS["https"]))


class CredentialScope(Struct, frozen=True):
    """The origins to which the secrets of a request may go.

    origins: a host may contain `*`, which matches text between two dots: `*.example.com`.
    secrets: values that are secret anywhere in a request.
    """

    origins: frozenset[Origin]
    secrets: Secrets = field(default_factory=Secrets)

    @classmethod
    def of(cls, urls: Iterable[str], config: JsonValue = None) -> "CredentialScope":
        """Return the scope of the origins of `urls` and of those that a config names."""
        return cls(frozenset(named for url in urls if (named := origin(url)).host) | frozenset(named_origins(config)))

    def covers(self, target: Origin) -> bool:
        """Whether secrets may be sent to `target`."""
        if target in self.origins:
            return True
        return bool(target.host) and any(_matches(known, target) for known in self.origins)


def neutral_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return those of `headers` that may be sent to any host."""
    return {name: value for name, value in headers.items() if name.lower() in _NEUTRAL}


def _is_host(text: str) -> bool:
    """Whether `text` is a valid host: in brackets it must be an IPv6 address, as parsers raise for anything else."""
    if not text.startswith("["):
        return True
    try:
        IPv6Address(text[1:-1])
    except ValueError:
        return False
    return True


def _matches(known: Origin, target: Origin) -> bool:
    if "*" not in known.host:
        return may_follow(known, target)
    pattern = _LABEL.join(map(re.escape, known.host.split("*")))
    return re.fullmatch(pattern, target.host) is not None and may_follow(replace(known, host=target.host), target)
