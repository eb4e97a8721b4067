"""StateRecord: one immutable entry of a log, which names every slot. Stored as canonical JSON."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, TypeAlias

from msgspec import Struct, field

from cdk.base.errors import BadState
from cdk.base.values import JsonObject, JsonValue, Stored, canonical
from cdk.state.log.canonical_json import digest, dumps_canonical, loads_canonical
from cdk.state.stores.protocol import StateKey

FORMAT = "spark-cdk-state/1"

RecordStatus: TypeAlias = Literal["partial", "final", "rolled_back", "reset", "imported"]
"""`partial`: the run continued or was interrupted. `final`: the source ended normally. The others: made by a person."""

_FIELDS = ("format", "key", "seq", "first", "parent", "attempt", "status", "run", "slots", "effects", "created_at")


class Slot(Struct, frozen=True):
    """One slot of a record, as JSON so that fields of newer kits are preserved.

    `kind`, `version`; `since`: the record that last changed it; `digest` of `[kind, version, value]`; `bytes`: the
    size of the value's canonical text. Then either `value`, or `blobs`: the names of the layers that form the value,
    oldest first, with the `entries` of each, their `encoding`, and `stored`: the size of the first and of all others.
    `maps`: objects stored outside the value, each with its place `at` and the names and entries of its `layers`.
    """

    json: Mapping[str, Stored]

    @property
    def digest(self) -> str:
        """Digest of kind, version and value: equal digests mean equal values."""
        return str(self.json["digest"])

    @property
    def blobs(self) -> tuple[str, ...]:
        """Names of the blobs that form the value; empty when the value is in the record."""
        return (*self.json.get("blobs", ()), *(name for part in self.maps for name, _ in part["layers"]))

    @property
    def maps(self) -> Sequence[Mapping[str, Stored]]:
        """The objects that are stored outside the value."""
        maps: Sequence[Mapping[str, Stored]] = self.json.get("maps", ())
        return maps


class StateRecord(Struct, frozen=True, dict=True):
    """Record `seq` of a log.

    parent: digest of the previous record, None for the first. first: number of the oldest record that the log still
    has. attempt: random id of the attempt to append, which tells our own record from another run's. run: facts about
    the run that wrote it. effects: what was done to sinks along with it. created_at: for people and retention, never
    for order. extra: fields of newer kits.
    """

    key: StateKey
    seq: int
    parent: str | None
    attempt: str
    status: str
    created_at: str
    slots: Mapping[str, Slot]
    run: Mapping[str, JsonValue] = field(default_factory=dict)
    effects: tuple[Stored, ...] = ()
    first: int = 1
    extra: Mapping[str, JsonValue] = field(default_factory=dict)

    @cached_property
    def _body(self) -> JsonObject:
        return {
            **self.extra,
            "format": FORMAT,
            "key": str(self.key),
            "seq": self.seq,
            "first": self.first,
            "parent": self.parent,
            "attempt": self.attempt,
            "status": self.status,
            "run": dict(self.run),
            "slots": {name: dict(slot.json) for name, slot in self.slots.items()},
            "effects": list(self.effects),
            "created_at": self.created_at,
        }

    @cached_property
    def digest(self) -> str:
        """Digest of the canonical record without this field."""
        return digest(dumps_canonical(self._body, "record"))

    def to_bytes(self) -> bytes:
        """Return the record as stores hold it. Raises BadState: when JSON cannot represent `run` or `effects`."""
        return dumps_canonical({**self._body, "digest": self.digest}, "record")


def read_record(data: bytes, key: StateKey, seq: int, path: str) -> StateRecord:
    """Parse record `seq` of a log. Raises BadState naming `path`, what was found and what was expected."""
    blob = loads_canonical(data, path)
    if not isinstance(blob, dict):
        raise BadState(path, blob, "an object")
    if blob.get("format") != FORMAT:
        raise BadState(f"{path} format", blob.get("format"), f"{FORMAT!r}; a newer kit may have written it: upgrade")
    expected_digest = blob.pop("digest", None)
    if expected_digest != (actual := digest(canonical(blob).encode())):
        text = f"{expected_digest}: the record was changed or truncated after it was written"
        raise BadState(f"{path} digest", actual, text)
    for name, expected in (("key", str(key)), ("seq", seq)):
        if blob.get(name) != expected:
            raise BadState(f"{path} {name}", blob.get(name), f"{expected!r}: the record lies in the wrong place")
    try:
        return StateRecord(
            key=key,
            seq=seq,
            parent=blob["parent"],
            attempt=blob["attempt"],
            status=blob["status"],
            created_at=blob["created_at"],
            slots={name: Slot(slot) for name, slot in blob["slots"].items()},
            run=blob["run"],
            effects=tuple(blob["effects"]),
            first=blob["first"],
            extra={name: value for name, value in blob.items() if name not in _FIELDS},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise BadState(path, f"a record without {error}", f"the fields {', '.join(_FIELDS)}") from error
