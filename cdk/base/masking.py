"""Secrets: which values of a config are secret, and a filter that hides them where text leaves."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

from cdk.base.values import Json, JsonSchema

HIDDEN = "****"

_BRANCHES = ("oneOf", "anyOf", "allOf")


def secret_values(schema: JsonSchema, config: Json) -> Iterator[str]:
    """The secret texts of `config`: values, and all inside them, that `schema` marks with `"airbyte_secret": true`.

    Looks through properties, items and every branch of `oneOf`, `anyOf` and `allOf`, chosen or not. Numbers give
    their text. Empty texts, true, false and null hide nothing and are left out.
    """
    if not isinstance(schema, Mapping):
        # The schema is a connector's, and looked through before anything has been checked.
        return
    if schema.get("airbyte_secret") is True:
        yield from _texts(config)
    for keyword in _BRANCHES:
        branches = schema.get(keyword)
        for branch in branches if isinstance(branches, list | tuple) else ():
            yield from secret_values(branch, config)
    properties = schema.get("properties")
    if isinstance(config, Mapping) and isinstance(properties, Mapping):
        for name, part in properties.items():
            if name in config:
                yield from secret_values(part, config[name])
    if isinstance(config, list) and isinstance(items := schema.get("items"), Mapping):
        for item in config:
            yield from secret_values(items, item)


class Secrets:
    """Hides secrets in text; more may be added as a run learns them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._spellings: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self.add(*values)

    def add(self, *values: str) -> None:
        """Hide these texts from now on, also as JSON, Python and URLs spell them."""
        for value in filter(None, values):
            self._spellings |= {
                value,
                json.dumps(value)[1:-1],
                repr(value)[1:-1],
                quote(value, safe=""),
                quote_plus(value),
            }
        if self._spellings:
            # The longest first: a secret that contains another must not leave its rest behind.
            longest_first = sorted(self._spellings, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def holds(self, text: str) -> bool:
        """Whether one of the secrets is in `text`."""
        return self._pattern is not None and self._pattern.search(text) is not None

    def mask(self, text: str) -> str:
        """`text` with `****` in place of every secret."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text


def _texts(value: Json) -> Iterator[str]:
    match value:
        case bool() | None | "":
            return
        case str() | int() | float():
            yield str(value)
        case Mapping():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)
        case _:
            pass
