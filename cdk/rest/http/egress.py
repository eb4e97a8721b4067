"""Egress: limits where requests may go, so that neither a config nor an API's redirect can reach internal networks."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Self, TypeAlias

from msgspec import Struct

from cdk.base.errors import ConfigError

Address: TypeAlias = IPv4Address | IPv6Address

VARIABLE = "SPARK_CDK_EGRESS"
"""The environment variable with the limit of a process and its child processes; `--egress` sets it."""

PUBLIC = "public"

_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_TEREDO = IPv6Network("2001::/32")
_RELAYS = IPv4Network("192.88.99.0/24")
# A public address, but it belongs to Azure's platform, which answers there only to machines inside Azure.
_INSIDE = IPv4Address("168.63.129.16")
_EXPECTED = "expected `public`, hosts (api.example.com, *.example.com, 127.0.0.1:8000), or both, separated by commas"


class Target(Struct, frozen=True):
    """A host in the list of allowed ones: `api.example.com`, `*.example.com` or an address. port: None for any."""

    host: str
    port: int | None = None

    def covers(self, host: str, port: int) -> bool:
        """Whether a host, in the form that `_normalized` returns, matches."""
        if self.port not in (None, port):
            return False
        return host.endswith(self.host[1:]) if self.host.startswith("*.") else host == self.host


class Egress(Struct, frozen=True):
    """The hosts to which connections are allowed.

    text: the original option. public: whether all hosts with a public address are allowed. targets: hosts that are
    allowed whatever address their name resolves to.
    """

    text: str
    public: bool
    targets: tuple[Target, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `public`, hosts, or both, separated by commas. Raises ConfigError: when `text` is invalid or empty."""
        words = [word.strip() for word in text.split(",") if word.strip()]
        if not words:
            raise ConfigError(f"--egress, or {VARIABLE} in the environment, is empty, {_EXPECTED}")
        return cls(text, PUBLIC in words, tuple(_target(word) for word in words if word != PUBLIC))

    def check_host(self, host: str, port: int) -> None:
        """Raise ConfigError if no connection to this host is allowed, whatever its address."""
        host = _normalized(host)
        if not host:
            raise self._refusal("?", port, "the URL has no host, or parsers may read its host differently")
        if self._is_listed(host, port):
            return
        if not self.public:
            raise self._refusal(host, port, "it is not in the list")
        address = _address(host)
        if address is not None and not is_public(address):
            raise self._refusal(host, port, "the address is not public")
        if host == "localhost" or host.endswith(".localhost"):
            raise self._refusal(host, port, "it is this machine")

    def check_address(self, host: str, port: int, address: str) -> None:
        """Raise ConfigError if `host` has an address that is not allowed. For hosts that `check_host` allows."""
        parsed = _address(address)
        if self._is_listed(_normalized(host), port) or (parsed is not None and is_public(parsed)):
            return
        if not self._is_listed(_normalized(address), port):
            raise self._refusal(host, port, f"its address {address} is not public")

    def check_name(self, host: str, port: int) -> None:
        """Raise ConfigError if `host` resolves to an address that is not allowed, before anything is sent there.

        Ignores a name that does not resolve: connecting to it fails anyway.
        """
        for address in _addresses(host.strip("[]"), port):
            self.check_address(host, port, address)

    def check_connection(self, host: str, port: int, names: Sequence[str]) -> None:
        """Raise ConfigError if no connection to this host, usually an address, is allowed.

        names: those that were looked up before. It is unknown which of them an address belongs to, and large sites
        resolve to different addresses each time. So once an allowed name was looked up, all public addresses are
        allowed; other addresses are allowed if an allowed name resolves to them.
        """
        address = _address(host)
        if address is None:
            self.check_host(host, port)
            self.check_name(host, port)
            return
        try:
            self.check_host(host, port)
        except ConfigError:
            names = [name for name in names if self._is_listed(_normalized(name), port)]
            if not (names and is_public(address)) and not self._resolves_to(names, port, address):
                raise

    def _resolves_to(self, names: Sequence[str], port: int, address: Address) -> bool:
        """Whether one of `names`, or of the allowed names, resolves to an address."""
        listed = [target.host for target in self.targets if target.port in (None, port)]
        known = dict.fromkeys([*names, *(host for host in listed if not host.startswith("*."))])
        return any(_address(each) == address for name in known for each in _addresses(name, port))

    def _is_listed(self, host: str, port: int) -> bool:
        return any(target.covers(host, port) for target in self.targets)

    def _refusal(self, host: str, port: int, why: str) -> ConfigError:
        return ConfigError(
            f"no request may go to {host}:{port} with --egress {self.text}: {why}; if that host is right, add it there"
        )


def is_public(address: Address) -> bool:
    """Whether an address is on the internet: not private, loopback, link-local, multicast or reserved.

    An IPv6 address that embeds an IPv4 address is public if that is.
    """
    match address:
        case IPv4Address():
            special = address.is_multicast or address.is_reserved or address in _RELAYS or address == _INSIDE
            return address.is_global and not special
        case IPv6Address():
            inner = address.ipv4_mapped or address.sixtofour
            if address in _NAT64:
                inner = IPv4Address(int(address) & 0xFFFFFFFF)
            if inner is not None:
                return is_public(inner)
            return address in _UNICAST and address not in _TEREDO and address.is_global


class _Process(Struct):
    """The limit of this process, read from its environment on first use."""

    egress: Egress | None = None
    known: bool = False


_PROCESS = _Process()


def process_egress() -> Egress | None:
    """Return the limit for all transports of this process. Raises ConfigError: when the variable's value is invalid."""
    if not _PROCESS.known:
        text = os.environ.get(VARIABLE)
        _PROCESS.egress, _PROCESS.known = None if text is None else Egress.parse(text), True
    return _PROCESS.egress


@contextmanager
def limited(egress: Egress) -> Iterator[None]:
    """Limit the requests of this process, and of processes started in the block, to `egress`."""
    before, known = os.environ.get(VARIABLE), (_PROCESS.egress, _PROCESS.known)
    os.environ[VARIABLE] = egress.text
    _PROCESS.egress, _PROCESS.known = egress, True
    try:
        yield
    finally:
        _PROCESS.egress, _PROCESS.known = known
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


def _target(word: str) -> Target:
    host, port = word, ""
    if word.startswith("["):
        host, _, port = word[1:].partition("]")
        port = port.removeprefix(":")
    elif word.count(":") == 1:
        host, _, port = word.partition(":")
    wild = host.removeprefix("*.")
    if (
        not wild
        or any(letter in wild for letter in "*/?#@[] ")
        or (":" in wild and _address(wild) is None)
        or (port and not (port.isdecimal() and 0 < int(port) < 2**16))
    ):
        raise ConfigError(f"--egress, or {VARIABLE} in the environment, contains {word!r}, {_EXPECTED}")
    return Target(f"*.{wild.lower()}" if wild != host else _normalized(host), int(port) if port else None)


def _addresses(name: str, port: int) -> Iterator[str]:
    """Yield the addresses that a name resolves to; none if it does not resolve."""
    with suppress(OSError, UnicodeError):
        yield from (str(sockaddr[0]) for *_, sockaddr in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))


def _normalized(host: str) -> str:
    """Normalize a host: lower case, no trailing dot, addresses as Python writes them."""
    host = host.strip("[]").rstrip(".").lower()
    address = _address(host)
    return host if address is None else str(address)


def _address(host: str) -> Address | None:
    """Return the address if a host is one, including legacy forms that systems accept (`127.1`, `0x7f000001`)."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None
