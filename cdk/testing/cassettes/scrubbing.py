"""Scrubbing: removes secrets, however they are encoded, from a recording before it is written to a file."""

import gzip
import re
import zlib
from base64 import urlsafe_b64decode
from binascii import Error
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

import orjson
from msgspec.structs import replace

from cdk.base.errors import FatalError
from cdk.base.secret_masking import HIDDEN, SHORTEST, Secrets
from cdk.base.secret_names import looks_secret, surely_secret
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import JsonValue, from_json, is_json, map_leaves, map_strings, to_json
from cdk.rest import Request
from cdk.rest.http.messages import query_of
from cdk.testing.cassettes.interactions import Interaction

_SHORTEST_LEARNED = 12
"""Shorter values of a field such as `password` may be ordinary words, such as `changed`."""
_SHORTEST_LOGIN = 8
"""Shorter strings in the response to a login are words such as `Bearer`."""
_NO_SECRETS = {"true", "false", "null", "none"}
_DEEPEST = 3
"""How many nested encodings are decoded."""

_ENCODED = re.compile(r"[A-Za-z0-9+/_\-]{16,}={0,2}")
_FIELD = re.compile(r'(")([\w.\-]+)"(\s*:\s*)"((?:[^"\\\n]|\\.)*)"')
_ESCAPED_FIELD = re.compile(r'(\\+")([\w.\-]+)\1(\s*:\s*)\1([^\n]*?)(?<!\\)\1')
"""A field in JSON that is a string inside other JSON; quotes inside its value have more backslashes."""
_PARAMETER = re.compile(r"(?:(?<=[?&;])|^)((?:amp;)?[\w.\-]+)=([^&\s\"'<>\\]+)")
_GZIP = b"\x1f\x8b"
_DROPPED = {"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive"}
"""Response headers that no longer hold: the body was decompressed, and the connection is closed."""


class Scrubber:
    """Learns the secrets of requests and responses, and removes them from all of them. secrets: of the config."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = Secrets(secrets)
        self._texts: list[str] = []
        """The texts of responses, without those to logins."""
        self._logins: set[int] = set()

    def learn(self, request: Request, interaction: Interaction) -> None:
        """Remember the secrets of a request, and those that its response introduces."""
        named = {**request.params, **dict(query_of(request.url))}
        # A parameter `token` whose value came from an earlier response is a page token, not a secret.
        unmarked = {str(value) for name, value in named.items() if name.lower() not in request.secret}
        tokens = {value for value in unmarked if any(value in text for text in self._texts)}
        body = _text(request.body or b"")
        login = bool(request.body) and (bool(request.hidden) or request.hide(body) != body or self._secrets.holds(body))
        queried = (str(value) for name, value in named.items() if request.is_secret(name))
        self._add(value for value in (*request.secret_values(), *queried) if value not in tokens)
        self._add(pair.partition("=")[2].partition(";")[0] for pair in _cookies(interaction))
        self._add(value for name, value in interaction.response_headers.items() if looks_secret(name))
        if login:
            self._logins.add(id(interaction))
        else:
            # Unquoted, because a token inside a link is percent-encoded.
            headers = (value for name, value in interaction.response_headers.items() if not looks_secret(name))
            self._texts.append(unquote("\n".join([*headers, _text(interaction.content)])))
        for match in _FIELD.finditer(_text(interaction.content)):
            if (looks_secret if login else surely_secret)(match[2]) and len(match[4]) >= _SHORTEST_LEARNED:
                self._secrets.add(match[4])

    def _add(self, values: Iterable[str]) -> None:
        known = {HIDDEN, *_NO_SECRETS}
        self._secrets.add(*(value for value in values if len(value) >= SHORTEST and value.lower() not in known))

    def scrubbed(self, interaction: Interaction) -> Interaction:
        """Return the interaction without secrets. Raises FatalError: when a body that is not text holds one."""
        login = id(interaction) in self._logins
        return replace(
            interaction,
            url=self.text(interaction.url),
            headers={name: self.text(value) for name, value in interaction.headers.items() if not looks_secret(name)},
            body=None if interaction.body is None else self._body(interaction.body, interaction),
            response_headers={
                name: HIDDEN if looks_secret(name) else self.text(value)
                for name, value in interaction.response_headers.items()
                if name.lower() not in _DROPPED
            },
            content=self._body(interaction.content, interaction, login=login),
        )

    def config(self, config: JsonValue) -> JsonValue:
        """Return a config with `****` in place of its secrets."""
        masked: JsonValue = map_leaves(config, lambda _, value: self._masked(value))
        return masked

    def _masked(self, value: JsonValue) -> JsonValue:
        if value is None or isinstance(value, bool):
            return value
        text = self.text(str(value))
        return value if text == str(value) else text

    def text(self, text: str) -> str:
        """Return a text without the secrets: plain, escaped, or inside encoded runs."""
        # Encoded runs first: masking part of a run would leave a rest that decodes to something else.
        text = _ENCODED.sub(lambda run: HIDDEN if self._encodes(run[0]) else run[0], text)
        text = _FIELD.sub(_field, _ESCAPED_FIELD.sub(_field, self._secrets.mask(text)))
        return _PARAMETER.sub(_parameter, text)

    def _encodes(self, run: str, depth: int = 1) -> bool:
        """Whether an encoded run holds a secret, also inside nested encodings."""
        # The encoded text may start inside a longer run of letters.
        texts = {_text(_decoded(run[shift:])) for shift in range(4)}
        if any(map(self._secrets.holds, texts)):
            return True
        inner = {match[0] for text in texts for match in _ENCODED.finditer(text)} if depth < _DEEPEST else ()
        return any(self._encodes(text, depth + 1) for text in inner)

    def _body(self, body: bytes, interaction: Interaction, *, login: bool = False) -> bytes:
        if body.startswith(_GZIP):
            return gzip.compress(self._body(_unpacked(body), interaction, login=login), mtime=0)
        try:
            text = body.decode()
        except UnicodeDecodeError:
            if self._secrets.holds(body.decode("latin-1")):
                where = f"{interaction.method} {self.text(interaction.url)}"
                raise FatalError(
                    f"a body of {where} is binary and contains a secret, so nothing is recorded; exclude that "
                    "stream with --stream"
                ) from None
            return body
        scrubbed = _login(self.text(text)) if login else self.text(text)
        if scrubbed != text and is_json(text) and not is_json(scrubbed):
            # A number equals a secret: an unquoted `****` is not JSON, and replay would find no records in it.
            scrubbed = to_json(self._value(from_json(text))).decode()
            scrubbed = _login(scrubbed) if login else scrubbed
        return scrubbed.encode()

    def _value(self, value: JsonValue, name: str = "") -> JsonValue:
        """Return a JSON value without secrets. name: of the field that holds it."""
        match value:
            case Mapping():
                return {self.text(name): self._value(inner, name) for name, inner in value.items()}
            case list():
                return [self._value(inner) for inner in value]
            case bool() | None:
                return value
            case str():
                return HIDDEN if surely_secret(name) and len(value) >= SHORTEST else self.text(value)
            case _:
                return HIDDEN if self._secrets.holds(str(value)) else value


def _cookies(interaction: Interaction) -> Iterator[str]:
    for name, value in interaction.response_headers.items():
        if name.lower() == "set-cookie":
            yield from re.split(r",\s*(?=[\w.\-]+=)", value)


def _field(match: re.Match[str]) -> str:
    if not surely_secret(match[2]) or len(match[4]) < SHORTEST:
        return match[0]
    quote = match[1]
    return f"{quote}{match[2]}{quote}{match[3]}{quote}{HIDDEN}{quote}"


def _parameter(match: re.Match[str]) -> str:
    return f"{match[1]}={HIDDEN}" if surely_secret(match[1]) else match[0]


def _login(text: str) -> str:
    """Return the response to a login without any string that may be a secret."""
    try:
        body = from_json(text)
    except orjson.JSONDecodeError:
        return text
    lists = [value for value in body.values() if isinstance(value, list)] if isinstance(body, Mapping) else [[{}]]
    if any(isinstance(item, Mapping) for value in lists for item in value):
        # These are records: the API expects a login in each request.
        return text
    return to_json(map_strings(body, lambda text: HIDDEN if _may_be_token(text) else text)).decode()


def _may_be_token(text: str) -> bool:
    return len(text) >= _SHORTEST_LOGIN and not re.search(r"\s|://", text) and parse_timestamp(text, ()) is None


def _decoded(run: str) -> bytes:
    """Decode base64 of either alphabet; empty if it is not base64."""
    text = run.rstrip("=").replace("+", "-").replace("/", "_")
    try:
        return _unpacked(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (Error, ValueError):
        return b""


def _unpacked(body: bytes) -> bytes:
    try:
        return gzip.decompress(body) if body.startswith(_GZIP) else body
    except (OSError, EOFError, zlib.error):
        return b""


def _text(body: bytes) -> str:
    return body.decode(errors="replace")
