"""StateValue: the value of a slot. Kind: how a use case reads such values, including old versions."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from cdk.base.errors import BadState
from cdk.base.first_use import lazy_pattern
from cdk.base.values import JsonValue, Stored
from cdk.state.layers.layer_file import PackedLayer
from cdk.state.log.canonical_json import digest, dumps_canonical

_SLOT = lazy_pattern(r"[a-z][a-z0-9_-]*:[^\x00-\x1f\x7f]{0,400}")


class PackedMap(Struct, frozen=True):
    """An object inside a value that is already stored as layers (`cdk.state.layers`); the log copies these unchanged.

    at: path of keys at which it belongs in the value; the value has the parent object. size: bytes of its keys and
    texts.
    """

    at: tuple[str, ...]
    size: int
    layers: Sequence[PackedLayer]


class StateValue(Struct, frozen=True, repr_omit_defaults=True):
    """A JSON value with its meaning (`kind`, such as `cdk/stream`) and the version of that meaning.

    maps: parts that are not in `value`; always empty in values returned by a log.
    """

    kind: str
    version: int
    value: Stored
    maps: Sequence[PackedMap] = ()


class Kind(Struct, frozen=True):
    """A kind of value and its current version, as known to the code that uses it.

    migrations: maps a version to a function that converts a value of it to the next version. The functions are pure
    except that they may modify their argument. A log does not know kinds: it keeps all values unchanged.
    """

    name: str
    version: int = 1
    migrations: Mapping[int, Callable[[Stored], Stored]] = field(default_factory=dict)

    def of(self, value: Stored, maps: Sequence[PackedMap] = ()) -> StateValue:
        """Wrap `value` as this kind, to be proposed. maps: parts that are not in `value`."""
        return StateValue(self.name, self.version, value, maps)

    def read(self, slot_value: StateValue, path: str) -> Stored:
        """Return the value, migrated to the current version.

        Raises BadState: when it is of another kind, of a newer version, or of a version without a migration.
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


class Frozen(Struct, frozen=True):
    """A checked value to be appended, as the exact bytes that were checked.

    base: text of the slot's value in the parent record, where known; a large value is then stored as a difference.
    """

    kind: str
    version: int
    text: bytes
    digest: str
    base: bytes | None = None
    maps: Sequence[PackedMap] = ()

    @property
    def size(self) -> int:
        """Bytes of the text and of the maps outside it."""
        return len(self.text) + sum(part.size for part in self.maps)


def frozen(slot: str, value: StateValue) -> Frozen:
    """Freeze a value as bytes. Raises BadState: when `slot` is not a valid name, or JSON cannot represent the value."""
    if not _SLOT.fullmatch(slot):
        raise BadState("slot", slot, "'use:name', such as 'stream:users', 'window:usage' or 'global:'")
    text = dumps_canonical(value.value, slot)
    named: list[JsonValue] = [[list(part.at), [layer.digest for layer in part.layers]] for part in value.maps]
    return Frozen(
        value.kind, value.version, text, value_digest(value.kind, value.version, text, named), maps=value.maps
    )


def value_digest(kind: str, version: int, text: bytes, maps: Sequence[JsonValue] = ()) -> str:
    """Return the digest of canonical `[kind, version, value]`. maps: pairs of path and layer digests, if any."""
    behind = b"," + dumps_canonical(list(maps), "slot") if maps else b""
    return digest(dumps_canonical([kind, version], "slot")[:-1], b",", text, behind, b"]")
