"""Parses curl command lines: the options, and what a shell makes of quotes and escapes."""

import re
import shlex
from argparse import SUPPRESS, ArgumentError, ArgumentParser, Namespace
from functools import partial
from typing import NoReturn
from urllib.parse import quote

from cdk.base.errors import ConfigError

_DATA = ("-d", "--data", "--data-raw", "--data-binary", "--data-ascii", "--data-urlencode", "--json")
_NO_FILE = ("--data-raw", "--data-urlencode")
_VALUES = {
    "method": ("-X", "--request"),
    "url": ("--url",),
    "user": ("-u", "--user"),
    "cookie": ("-b", "--cookie"),
    "bearer": ("--oauth2-bearer",),
    "agent": ("-A", "--user-agent", "-e", "--referer", "-o", "--output", "-m", "--max-time", "--connect-timeout"),
    "others": ("--retry", "-w", "--write-out", "--cacert", "-x", "--proxy", "--resolve", "--limit-rate"),
}
# fmt: off
_SWITCHES = (
    "-s", "--silent", "-S", "--show-error", "-L", "--location", "-k", "--insecure", "-i", "--include", "-v",
    "--verbose", "-f", "--fail", "-g", "--globoff", "--compressed", "--http1.1", "--http2", "-#", "--progress-bar",
    "-N", "--no-buffer", "-4", "-6", "--basic", "--fail-with-body",
)
# fmt: on

_QUOTED = re.compile(r"""(?s)'[^']*'|"(?:[^"\\]|\\.)*"|\\.|\$'((?:[^'\\]|\\.)*)'""")
_ESCAPE = re.compile(rb"(?s)\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(.))")
_ESCAPED = dict(zip(b"abefnrtv\\'\"?", b"\a\b\x1b\f\n\r\t\v\\'\"?", strict=True))


def curl_options(command: str) -> Namespace:
    """Parse the options of a command line. Raises ConfigError: when it is not a curl command that is understood."""
    try:
        # A shell joins lines that end with a backslash; `$'...'` is a string with escapes, which browsers write.
        lines = command.replace("\\\r\n", " ").replace("\\\n", " ")
        words = shlex.split(_QUOTED.sub(lambda each: each[0] if each[1] is None else _unescaped(each[1]), lines))
    except ValueError as error:
        raise ConfigError(f"the curl command cannot be parsed: {error}") from None
    if words[:1] != ["curl"]:
        raise ConfigError('found a command that does not begin with curl, expected "curl https://..."')
    parser = _Parser(add_help=False, allow_abbrev=False, exit_on_error=False, argument_default=SUPPRESS)
    parser.add_argument("-H", "--header", dest="headers", action="append", default=[])
    parser.add_argument("-G", "--get", dest="get", action="store_true", default=False)
    for name in _DATA:
        parser.add_argument(name, dest="data", action="append", default=[], type=partial(_data, name))
    for dest, flags in _VALUES.items():
        parser.add_argument(*flags, dest=dest, default=None)
    parser.add_argument(*_SWITCHES, dest="switch", action="store_true")
    parser.add_argument("urls", nargs="*", default=[])
    try:
        options, unknown = parser.parse_known_intermixed_args(words[1:])
    except ArgumentError as error:
        why = f"the curl command cannot be parsed: {error.argument_name}: {_without_values(error.message)}"
        raise ConfigError(why) from None
    if unknown:
        named = [
            word.partition("=")[0] if word.startswith("--") else word[:2] for word in unknown if word.startswith("-")
        ]
        raise ConfigError(f"found the options {', '.join(named)} of curl, which no stream supports; remove them")
    return options


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"the curl command cannot be parsed: {_without_values(message)}")


def _without_values(message: str) -> str:
    """Return a message of argparse without the values that it quotes, which may be secrets."""
    return re.sub(r"(?s)['\"].*", "****", message)


def _unescaped(text: str) -> str:
    """Return a `$'...'` string quoted without escapes. Raises ConfigError: when it has an escape unknown to a shell."""

    def value(match: re.Match[bytes]) -> bytes:
        byte, *points, other = match.groups()
        if byte is not None:
            return bytes([int(byte, 16)])
        point = next((each for each in points if each is not None), None)
        return bytes([_ESCAPED[ord(other)]]) if point is None else chr(int(point, 16)).encode()

    try:
        return shlex.quote(_ESCAPE.sub(value, text.encode()).decode())
    except (KeyError, ValueError, OverflowError):
        why = "found an unknown escape in a $'...' of the curl command; write the character that it stands for"
        raise ConfigError(why) from None


def _data(flag: str, text: str) -> str:
    """Return the data that curl sends for an option. Raises ConfigError: when that is the content of a file."""
    name, equals, content = text.partition("=")
    is_encoded = flag == "--data-urlencode"
    if (is_encoded and not equals and "@" in name) or (flag not in _NO_FILE and text.startswith("@")):
        raise ConfigError("the curl command reads its data from a file (@); write the data into the command")
    return f"{name}={quote(content)}" if is_encoded else text
