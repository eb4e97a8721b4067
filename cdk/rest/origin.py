"""The origin of a URL: what credentials may be sent to."""

from typing import NamedTuple
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """A scheme, a host and a port; empty for what is no absolute URL."""

    scheme: str = ""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}" + ("" if self.port == _PORTS.get(self.scheme) else f":{self.port}")


def origin(url: str) -> Origin:
    """The origin of `url`."""
    try:
        parts = urlsplit(url)
        return Origin(parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0))
    except ValueError:
        return Origin()


def may_follow(old: Origin, new: Origin) -> bool:
    """Whether credentials for `old` may be sent to `new`: the same, or the same host moving up to TLS."""
    return old == new or (old.host == new.host and old[::2] == ("http", 80) and new[::2] == ("https", 443))
