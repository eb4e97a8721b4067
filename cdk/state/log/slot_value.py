"""StateValue: what a slot holds. Kind: how a use case reads it, old forms included."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cdk.base.errors import BadState
from cdk.base.values import JsonValue, Stored
from cdk.state.layers.layer_file import PackedLayer
from cdk.state.log.canonical_json import digest, dumps_canonical

_SLOT = re.compile(r"[a-z][a-z0-9_-]*:[^\x00-\x1f\x7f]{0,400}")


@dataclass(frozen=True, slots=True)
class PackedMap:
    """An object of a value that its owner has as layers of texts (`cdk.state.layers`), which the log takes as they lie.

    at: the keys by which it belongs into the value, which has the object above it. size: bytes of its keys and texts.
    """

    at: tuple[str, ...]
    size: int
    layers: Sequence[PackedLayer]


@dataclass(frozen=True, slots=True)
class StateValue:
    """A JSON value, what it means (`kind`, such as `cdk/stream`), and by which version of that meaning.

    maps: parts of it that are not in `value`. A value that a log gives has none.
    """

    kind: str
    version: int
    value: Stored
    maps: Sequence[PackedMap] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value, as the code that uses it knows it today.

    migrations: version -> how a value of that version becomes one of the next. Pure; they may change what they are
    given. A log knows no kinds: it carries all values as they are.
    """

    name: str
    version: int = 1
    migrations: Mapping[int, Callable[[Stored], Stored]] = field(default_factory=dict)

    def of(self, value: Stored, maps: Sequence[PackedMap] = ()) -> StateValue:
        """`value` as this kind, to be proposed. maps: parts that are not in it."""
        return StateValue(self.name, self.version, value, maps)

    def read(self, slot_value: StateValue, path: str) -> Stored:
        """The value in today's form.

        Raises BadState: it is of another kind, of a newer version, or of one that nobody migrates any more.
        """
        if slot_value.kind != self.name:
            raise BadState(f"{path} kind", slot_value.kind, f"{self.name!r}; the slot belongs to something else")
        if slot_value.version > self.version:
            expected = f"at most {self.version}: a newer kit wrote it; upgrade this one, or reset the slot"
            raise BadState(f"{path} version", slot_value.version, expected)
        value = slot_value.value
        for version in range(slot_value.version, self.version):
            if version not in self.migrations:
                raise BadState(f"{path} version", version, f"{self.version}: nothing migrates it; reset the slot")
            value = self.migrations[version](value)
        return value


@dataclass(frozen=True, slots=True)
class Frozen:
    """A value on its way into a record: checked, and as the bytes that were checked.

    base: the text of the value that the slot has in the parent, where it is known; a large value is then stored as
    what changed.
    """

    kind: str
    version: int
    text: bytes
    digest: str
    base: bytes | None = None
    maps: Sequence[PackedMap] = ()

    @property
    def size(self) -> int:
        """Bytes of the text, and of what is not in it."""
        return len(self.text) + sum(part.size for part in self.maps)


def frozen(slot: str, value: StateValue) -> Frozen:
    """`found` as bytes. Raises BadState: a name that is no slot's, or a value that is no JSON, with its place."""
    if not _SLOT.fullmatch(slot):
        raise BadState("slot", slot, "'use:name', such as 'stream:users', 'window:usage' or 'global:'")
    text = dumps_canonical(value.value, slot)
    named: list[JsonValue] = [[list(part.at), [layer.digest for layer in part.layers]] for part in value.maps]
    return Frozen(
        value.kind, value.version, text, value_digest(value.kind, value.version, text, named), maps=value.maps
    )


def value_digest(kind: str, version: int, text: bytes, maps: Sequence[JsonValue] = ()) -> str:
    """The digest of `[kind, version, value]` in canonical JSON. maps: places, and the digests of the layers there."""
    behind = b"," + dumps_canonical(list(maps), "slot") if maps else b""
    return digest(dumps_canonical([kind, version], "slot")[:-1], b",", text, behind, b"]")
