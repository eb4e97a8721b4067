"""Secrets: finds the secret values of a config, and masks them wherever text leaves the process.

Page tokens may contain secrets, too: an API that is called with `?apikey=...` may echo it in the link to the next page.
`SecretMarks` removes them before a token becomes part of the state, and restores them when it is used. In the state, a
mark names the secret's place in the config and its encoding: `<secret credentials.key url>`.
"""

import json
import re
from base64 import b32encode, b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, reduce
from urllib.parse import quote, quote_plus

from cdk.base.first_use import lazy_pattern
from cdk.base.values import FieldValue, JsonSchema, JsonValue, Keys, branches_of, map_leaves, map_strings, walk

HIDDEN = "****"

_SHORTEST_CODED = 6
"""Shorter base64 and hex texts are not searched for, since they occur by chance in many values."""

SHORTEST = 4
"""Shorter secrets are only masked as separate words, if at all, since they occur inside the words of every text.

Some APIs accept `x` as a password.
"""

MARKED = "<secret "
"""The start of a mark."""

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""As `html.escape`, whose module takes 1 ms of each start."""

_MARK = lazy_pattern(r"<secret ([^<> ]+) ([A-Za-z0-9\-]+)>")

_NUMBER = "number"
"""The encoding, in a mark, of a secret that is an integer."""

_LONGEST_LOOSE = 256
"""Longer secrets, such as PEM keys, are only found if all or none of their characters are escaped."""

_LONG_LINE = 16

_BACKSLASHES = r"\\{1,3}"
"""The backslashes before an escaped character: one, or three if the JSON is a string inside other JSON."""

_LOGIN = lazy_pattern(r"(?<=://)[^/\s:@\"'<>]*:[^/\s\"'<>]+(?=@)")
"""User and password in front of the host of a URL, such as that of a proxy or an object store."""


def secret_values(schema: JsonSchema, config: JsonValue) -> Iterator[str]:
    """The secret texts of `config`: all values, and values inside them, that `schema` marks as `airbyte_secret`.

    Searches properties, items and every branch of `oneOf`, `anyOf` and `allOf`, selected or not. Numbers are converted
    to text. Empty strings, true, false and null are left out.
    """
    return (text for _, text in secret_places(schema, config))


def secret_places(schema: JsonValue, config: JsonValue, path: str = "") -> Iterator[tuple[str, str]]:
    """Like `secret_values`, each with its place in the config, such as `accounts.0.password`."""
    if not isinstance(schema, Mapping):
        # The schema comes from a connector, and has not been validated yet.
        return
    if schema.get("airbyte_secret") is True:
        yield from _texts(config, path)
    for _, branch in branches_of(schema):
        yield from secret_places(branch, config, path)
    properties = schema.get("properties")
    if isinstance(config, Mapping) and isinstance(properties, Mapping):
        for name, part in properties.items():
            if name in config:
                yield from secret_places(part, config[name], _inner(path, name))
    if isinstance(config, list) and isinstance(items := schema.get("items"), Mapping):
        for number, item in enumerate(config):
            yield from secret_places(items, item, _inner(path, number))


class Secrets:
    """Masks secrets in text, in all their encodings; a run may add secrets that it learns.

    shortest: texts with fewer characters are not searched for.
    """

    def __init__(self, values: Iterable[str] = (), *, shortest: int = 1) -> None:
        self._values: set[str] = set()
        self._shortest = shortest
        self._pattern: re.Pattern[str] | None = None
        self.add(*values)

    def add(self, *values: str) -> None:
        """Mask these texts from now on, also as encoded in JSON, Python, URLs, base64 and hex."""
        for value in values:
            # PEM keys also appear line by line.
            lines = [line for line in value.splitlines() if len(line) >= _LONG_LINE] if "\n" in value else ()
            self._values.update(text for text in (value, *lines) if len(text) >= self._shortest and text)
        self._pattern = None

    def holds(self, text: str) -> bool:
        """Whether `text` contains one of the secrets."""
        return bool(self._values) and self._compiled().search(text) is not None

    def mask(self, text: str) -> str:
        """Replace every secret, and users and passwords in URLs, by `****`."""
        text = self._compiled().sub(HIDDEN, text) if self._values else text
        return _LOGIN.sub(HIDDEN, text) if "://" in text else text

    def mask_json(self, value: object) -> JsonValue:
        """Mask every string in `value`, including names; values that are not JSON, such as dates, become text."""
        match value:
            case bool() | int() | float() | None:
                return value
            case Mapping():
                return {self.mask(str(name)): self.mask_json(inner) for name, inner in value.items()}
            case list() | tuple():
                return [self.mask_json(inner) for inner in value]
            case _:
                return self.mask(str(value))

    def _compiled(self) -> re.Pattern[str]:
        if self._pattern is None:
            # The longest first: otherwise the rest of a secret that contains another one would stay visible.
            long = {form for value in self._values if len(value) >= SHORTEST for form in _patterns(value)}
            short = {form for value in self._values if len(value) < SHORTEST for form in _patterns(value)}
            forms = [*_longest_first(long), *(rf"(?<!\w)(?:{form})(?!\w)" for form in _longest_first(short))]
            self._pattern = re.compile("|".join(forms))
        return self._pattern


def _longest_first(forms: set[str]) -> list[str]:
    return sorted(forms, key=len, reverse=True)


def spellings(secret: str) -> dict[str, str]:
    """The encodings in which `secret` may appear in a text, by the name of the encoding.

    Base64 encodes three bytes at a time, so a secret that follows other text (`user:secret`) has three forms. The
    characters at their ends depend on the neighbours and are left out, as are forms too short to be distinctive.
    """
    raw = secret.encode(errors="surrogatepass")
    forms = {
        "plain": secret,
        "url": quote(raw, safe=""),
        "form": quote_plus(raw),
        "path": quote(raw),
        "json": json.dumps(secret)[1:-1],
        "json-utf8": json.dumps(secret, ensure_ascii=False)[1:-1],
        "python": repr(secret)[1:-1],
        "html": secret.translate(_HTML),
    }
    coded = {"hex": raw.hex(), "HEX": raw.hex().upper(), "base32": b32encode(raw).decode().rstrip("=")}
    for name, encode in (("base64", b64encode), ("base64url", urlsafe_b64encode)):
        for shift in range(3):
            encoded = encode(bytes(shift) + raw).decode().rstrip("=")
            coded[f"{name}-{shift}"] = encoded[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
    return forms | {name: text for name, text in coded.items() if len(text) >= _SHORTEST_CODED}


def _patterns(secret: str) -> Iterator[str]:
    """Regular expressions for all encodings of a secret, including those with only some characters escaped."""
    for text in spellings(secret).values():
        yield from (re.escape(text), re.escape(quote(text, safe="")))
    yield loose_pattern(secret)


def loose_pattern(secret: str) -> str:
    """A regular expression for a secret with any of its characters escaped; for a long secret, without escapes."""
    return "".join(map(_letter, secret)) if len(secret) <= _LONGEST_LOOSE else re.escape(secret)


@lru_cache(maxsize=1024)
def _letter(letter: str) -> str:
    """A regular expression for one character, plain or escaped: for URLs (also twice), in JSON, or by backslashes."""
    quoted = "".join(f"%(?:25)?{byte:02x}" for byte in letter.encode(errors="surrogatepass"))
    ways = [f"(?i:{quoted})", f"(?i:{_BACKSLASHES}u{ord(letter):04x})"]
    if not letter.isalnum():
        ways += [re.escape(form) for form in (letter.translate(_HTML), json.dumps(letter)[1:-1], repr(letter)[1:-1])]
        ways += [_BACKSLASHES + re.escape(letter), *([r"\+"] if letter == " " else [])]
    # The plain character comes last, since it may also start its own escape, as `%`, `&` and a backslash do.
    ways = [way for way in ways if way != re.escape(letter)]
    return f"(?:{'|'.join((*dict.fromkeys(ways), re.escape(letter)))})"


def _texts(value: JsonValue, path: str) -> Iterator[tuple[str, str]]:
    for keys, item in walk(value):
        if isinstance(item, str | int | float) and not isinstance(item, bool) and item != "":
            yield reduce(_inner, keys, path), str(item)


def _inner(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


class SecretMarks:
    """Replaces the secrets of a config in tokens by marks, and restores them. Picklable, as a part of its stream.

    secrets: the places of the secrets in the config, such as `credentials.key`, and their values.
    """

    def __init__(self, secrets: Iterable[tuple[str, str]] = ()) -> None:
        self._secrets = {quote(path, safe=".[]"): value for path, value in secrets if len(value) >= SHORTEST}
        self._marks: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def are_in(self, text: str) -> bool:
        """Whether `text` contains a secret of at least six characters: shorter ones are in many texts by chance."""
        return any(form in text for form in self._forms)

    @cached_property
    def _forms(self) -> Sequence[str]:
        long = [value for value in self._secrets.values() if len(value) >= _SHORTEST_CODED]
        return list({form for value in long for form in spellings(value).values() if len(form) >= _SHORTEST_CODED})

    def cut(self, token: FieldValue) -> FieldValue:
        """Replace every secret in `token` by a mark, at any depth, including in keys; also integers that are one."""
        if not self._secrets:
            return token
        if self._pattern is None:
            self._pattern = self._compiled()
        token = map_strings(token, self._cut, names=True)
        return map_leaves(token, self._cut_number) if self._numbers else token

    def restore(self, token: FieldValue) -> FieldValue:
        """Replace the marks in `token` by the secrets that they name, with their current values in the config."""
        return map_strings(token, self._restored, names=True) if self._secrets else token

    def _compiled(self) -> re.Pattern[str]:
        for path, value in self._secrets.items():
            for name, text in spellings(value).items():
                self._marks.setdefault(text, f"<secret {path} {name}>")
        # The longest first: otherwise the rest of a secret that contains another one would stay in the token.
        exact = map(re.escape, sorted(self._marks, key=len, reverse=True))
        loose = (f"(?P<s{n}>{loose_pattern(value)})" for n, value in enumerate(self._secrets.values()))
        return re.compile("|".join((*exact, *loose)))

    def _cut(self, text: str) -> str:
        assert self._pattern is not None
        return self._pattern.sub(self._mark, text)

    @cached_property
    def _numbers(self) -> Mapping[str, str]:
        """The marks of the secrets that are integers: APIs return an id as a number that configs have as a string."""
        long = {path: value for path, value in self._secrets.items() if len(value) >= _SHORTEST_CODED}
        return {value: f"<secret {path} {_NUMBER}>" for path, value in long.items() if value.isdecimal()}

    def _cut_number(self, _: Keys, value: FieldValue) -> FieldValue:
        return self._numbers.get(str(value), value) if type(value) is int else value

    def _mark(self, match: re.Match[str]) -> str:
        if match.lastgroup is None:
            return self._marks[match.group()]
        # Only some characters are escaped, which happens in URLs only; any choice of characters is equivalent.
        return f"<secret {list(self._secrets)[int(match.lastgroup[1:])]} url>"

    def _restored(self, text: str) -> FieldValue:
        if MARKED not in text:
            return text
        if (match := _MARK.fullmatch(text)) is not None and match[2] == _NUMBER:
            value = self._secrets.get(match[1], text)
            return int(value) if value.isdecimal() else text
        return _MARK.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        value = self._secrets.get(match[1])
        return match.group() if value is None else spellings(value).get(match[2], match.group())
