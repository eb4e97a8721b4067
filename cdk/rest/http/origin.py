"""The origin of a URL, and the one rule of what may be sent to which: secrets stay with the origins of their API.

Who names a host decides: the author of a manifest or a stream, and the config, may; what an API answers (links,
redirects, records of a parent) may not.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address
from typing import NamedTuple

from cdk.base.errors import FatalError
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue

_PORTS = {"http": 80, "https": 443}
# Of what parsers read in different ways (a backslash, a space, a second @) there is no origin.
_HOST = r"\[[0-9a-f:.]+\]|[^/?#\\@:\s\[\]]+"
_URL = re.compile(rf"(https?)://(?:[^/?#\\@\s\[\]]*@)?({_HOST})(?::([0-9]{{0,5}}))?(?=[/?#]|\Z)", re.IGNORECASE)
_RELATIVE = re.compile(r"(?![a-z][a-z0-9+.\-]*:)[a-z0-9]", re.IGNORECASE)
_NAMED_HOST = re.compile(r"([A-Za-z0-9][A-Za-z0-9\-]*(?:\.[A-Za-z0-9\-]+)+)(?::([0-9]{1,5}))?(?=/|$)")
_LABEL = r"[A-Za-z0-9\-_]+"
# What may travel to any host: nothing in here says who is asking.
_NEUTRAL = {"accept", "accept-encoding", "accept-language", "content-type", "user-agent"}


class ForeignHost(FatalError):
    """A request with secrets would go to a host that is not the API's."""


class Origin(NamedTuple):
    """A scheme, a host and a port; empty for what is no absolute URL."""

    scheme: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}" + ("" if self.port == _PORTS.get(self.scheme) else f":{self.port}")


def origin(url: str) -> Origin:
    """The origin of `url`; empty where it has none, or where two readers of it might disagree."""
    end = url.find("/", len("https://"))
    return _origin(url if end < 0 else url[:end])


@lru_cache(maxsize=64)
def _origin(url: str) -> Origin:
    """The origin of a URL without its path. Remembered: each request is looked at, and most have the same."""
    match = _URL.match(url)
    if match is None or not _is_host(match[2]):
        return Origin()
    scheme = match[1].lower()
    return Origin(scheme, match[2].lower(), int(match[3] or _PORTS[scheme]))


def is_relative(url: str) -> bool:
    """Whether `url` begins with neither a scheme nor a slash, such as `users/1`."""
    return _RELATIVE.match(url) is not None


def may_follow(old: Origin, new: Origin) -> bool:
    """Whether credentials for `old` may be sent to `new`: the same, or the same host moving up to TLS."""
    return old == new or (old.host == new.host and old[::2] == ("http", 80) and new[::2] == ("https", 443))


def named_origins(value: JsonValue) -> Iterator[Origin]:
    """The origins that the texts of `value`, such as a config, name: URLs, and hosts, which are asked by TLS."""
    match value:
        case str():
            text = value.strip()
            if (named := origin(text)).host:
                yield named
            elif "://" not in text and (match := _NAMED_HOST.match(text)):
                yield Origin("https", match[1].lower(), int(match[2] or _PORTS["https"]))
        case Mapping():
            for item in value.values():
                yield from named_origins(item)
        case list() | tuple():
            for item in value:
                yield from named_origins(item)
        case _:
            pass


@dataclass(frozen=True, slots=True)
class CredentialScope:
    """To which origins the secrets of a request may go.

    origins: as they are. A host may hold `*`, which stands for a part between two dots: `*.example.com`.
    secrets: values that are secret wherever they are in a request.
    """

    origins: frozenset[Origin]
    secrets: Secrets = field(default_factory=Secrets)

    @classmethod
    def of(cls, urls: Iterable[str], config: JsonValue = None) -> "CredentialScope":
        """The scope of the origins of `urls`, and of those that a config names."""
        return cls(frozenset(named for url in urls if (named := origin(url)).host) | frozenset(named_origins(config)))

    def covers(self, target: Origin) -> bool:
        """Whether secrets may be sent to `target`."""
        if target in self.origins:
            return True
        return bool(target.host) and any(_stands_for(known, target) for known in self.origins)


def neutral(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of `headers` that may be sent to any host."""
    return {name: value for name, value in headers.items() if name.lower() in _NEUTRAL}


def _is_host(text: str) -> bool:
    """Whether `text` is no bracket around what is no IPv6 address, at which parsers raise."""
    if not text.startswith("["):
        return True
    try:
        IPv6Address(text[1:-1])
    except ValueError:
        return False
    return True


def _stands_for(known: Origin, target: Origin) -> bool:
    if "*" not in known.host:
        return may_follow(known, target)
    pattern = _LABEL.join(map(re.escape, known.host.split("*")))
    return re.fullmatch(pattern, target.host) is not None and may_follow(known._replace(host=target.host), target)
