"""`$ref` and `#/...`: parts of a manifest that are written once and used in several places."""

from collections.abc import Iterator, Mapping

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject, JsonValue, Location, json_kind
from cdk.base.wording import did_you_mean, shown
from cdk.declarative.syntax.json_edit import Keys, part_at

_REF = "$ref"
_EXAMPLE = "a part of this manifest, such as '#/definitions/requester'"
# Fields with data for the API or for people, in which a text may look like a reference.
_PLAIN = frozenset({"config_overrides"})


class References:
    """Resolves the references of one manifest.

    An object with `$ref` becomes the object that it refers to, overridden by its own keys; a string that starts with
    `#/` is replaced by its target. Airbyte: the same, except that unused parts are not resolved here.
    """

    def __init__(self, manifest: Mapping[str, JsonValue]) -> None:
        self._manifest = manifest
        self._known: JsonObject = {}
        self._seen: dict[int, JsonValue] = {}
        self._open: list[str] = []

    def resolve(self, value: JsonValue, keys: Keys = ()) -> JsonValue:
        """Return `value` without references. Parts may be shared: do not modify them.

        Raises ManifestError with the place: when a reference cannot be resolved or is circular.
        """
        if isinstance(value, str):
            return self._target(value, keys) if value.startswith("#/") else value
        if not isinstance(value, dict | list):
            return value
        # A part that is used in several places, such as by YAML aliases, is resolved once and stays one object.
        if id(value) not in self._seen:
            self._seen[id(value)] = self._parts_of(value, keys)
        return self._seen[id(value)]

    def _parts_of(self, value: JsonObject | list[JsonValue], keys: Keys) -> JsonValue:
        if isinstance(value, list):
            return [self.resolve(part, (*keys, i)) for i, part in enumerate(value)]
        parts = {name: part for name, part in value.items() if name != _REF}
        if not isinstance(link := value.get(_REF), str):
            # An object here is a property with this name, of a schema.
            if _REF in value and not isinstance(link, Mapping):
                raise ManifestError(f"found {shown(link)}, expected {_EXAMPLE}", path=Location(keys=(*keys, _REF)))
            return {name: self._part(name, part, keys) for name, part in value.items()}
        target = self._target(link, (*keys, _REF))
        if not parts:
            return target
        if not isinstance(target, Mapping):
            why = f"{link!r} leads to {json_kind(target)}, so no other fields are allowed next to the $ref"
            raise ManifestError(why, path=Location(keys=keys))
        return {**target, **{name: self._part(str(name), part, keys) for name, part in parts.items()}}

    def where(self, keys: Keys) -> Keys:
        """Return the keys in the manifest as written that correspond to `keys` in the resolved manifest."""
        node: JsonValue = self._manifest
        location: Keys = []
        for key in keys:
            node, location = self._through(node, location)
            if isinstance(node, Mapping) and key not in node and isinstance(link := node.get(_REF), str):
                node, location = self._through(link, location)
            try:
                node = part_at(node, (key,))
            except LookupError:
                return location
            location = [*location, key]
        return location

    def _through(self, node: JsonValue, location: Keys) -> tuple[JsonValue, list[str | int]]:
        followed = 0
        while followed < 64:  # noqa: PLR2004 - resolving reports circles
            link = node if isinstance(node, str) else node.get(_REF) if isinstance(node, Mapping) else None
            if not isinstance(link, str) or not link.startswith("#/") or (isinstance(node, Mapping) and len(node) > 1):
                break
            try:
                node, location, followed = self._at(link), _parts(link), followed + 1
            except ManifestError:
                break
        return node, list(location)

    def _part(self, name: str, part: JsonValue, keys: Keys) -> JsonValue:
        return part if name in _PLAIN else self.resolve(part, (*keys, name))

    def _target(self, link: str, keys: Keys) -> JsonValue:
        if link in self._known:
            return self._known[link]
        if link in self._open:
            circle = " -> ".join([*self._open[self._open.index(link) :], link])
            raise ManifestError(f"the references are circular: {circle}", path=Location(keys=keys))
        self._open.append(link)
        try:
            resolved = self._known[link] = self.resolve(self._at(link, keys), _parts(link))
        finally:
            self._open.pop()
        return resolved

    def _at(self, link: str, keys: Keys = ()) -> JsonValue:
        node: JsonValue = self._manifest
        rest, walked = link.removeprefix("#/"), list[str | int]()
        while rest:
            key, after = next(_steps(node, rest), (None, ""))
            if key is None:
                first = rest.partition("/")[0]
                why = f"there is no {first!r}{did_you_mean(first, map(str, node)) if isinstance(node, Mapping) else ''}"
                if not link.startswith("#/") and node is self._manifest:
                    why = f"expected {_EXAMPLE}"
                raise ManifestError(f"the reference {link!r} cannot be resolved: {why}", path=Location(keys=keys))
            node, rest = part_at(node, (key,)), after
            walked.append(key)
            if rest and isinstance(node, str | dict):
                # A reference inside the path: follow it, and look up the rest in its target.
                node = node if isinstance(node, dict) and _REF not in node else self.resolve(node, walked)
        return node


def _steps(node: JsonValue, rest: str) -> Iterator[tuple[str | int, str]]:
    """Yield the possible next steps from `node`, each with the rest of the path: a key may itself contain slashes."""
    first, _, after = rest.partition("/")
    if isinstance(node, Mapping):
        if rest in node:
            yield rest, ""
        if first in node:
            yield first, after
    elif isinstance(node, list) and first.isdecimal() and int(first) < len(node):
        yield int(first), after


def _parts(link: str) -> list[str | int]:
    rest = link.removeprefix("#/")
    return [int(part) if part.isdecimal() else part for part in rest.split("/")] if rest else []


def has_at_most(value: JsonValue, most: int) -> bool:
    """Whether a value has at most `most` parts when shared parts are repeated. Visits each shared part once."""
    sizes: dict[int, int] = {}

    def size(part: JsonValue) -> int:
        if not isinstance(part, dict | list):
            return 1
        if id(part) not in sizes:
            inner = part.values() if isinstance(part, dict) else part
            sizes[id(part)] = 1 + sum(map(size, inner))
        return sizes[id(part)]

    return size(value) <= most
