"""StateRecord: one entry of a log, immutable, naming every slot. Its form on disk is canonical JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from cdk.base.errors import BadState
from cdk.base.values import JsonObject, JsonValue, Stored, canonical
from cdk.state.log.canonical_json import digest, dumps_canonical, loads_canonical
from cdk.state.stores.key import StateKey

FORMAT = "spark-cdk-state/1"

RecordStatus: TypeAlias = Literal["partial", "final", "rolled_back", "reset", "imported"]
"""`partial`: of a run that went on, or was cut. `final`: the source ended normally. The others: made by a person."""

_FIELDS = ("format", "key", "seq", "first", "parent", "attempt", "status", "run", "slots", "effects", "created_at")


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of a record, as JSON, so that fields of newer kits are carried along.

    `kind`, `version`; `since`: the record that last changed it; `digest` of `[kind, version, value]`; `bytes`: the
    size of the value's canonical text. Then `value`, or `blobs`: the names of the layers that the value is made of,
    oldest first, with the `entries` of each, their `encoding`, and `stored`: the sizes of the first and of all others.
    `maps`: objects that are not in the value, with the place of each, and the names and entries of its `layers`.
    """

    json: Mapping[str, Stored]

    @property
    def digest(self) -> str:
        """Equal digests mean equal values."""
        return str(self.json["digest"])

    @property
    def blobs(self) -> tuple[str, ...]:
        """The blobs that the value is made of; empty when it is in the record."""
        return (*self.json.get("blobs", ()), *(name for part in self.maps for name, _ in part["layers"]))

    @property
    def maps(self) -> Sequence[Mapping[str, Stored]]:
        """The objects that are not in the value."""
        maps: Sequence[Mapping[str, Stored]] = self.json.get("maps", ())
        return maps


@dataclass(frozen=True)
class StateRecord:
    """Record `seq` of a log.

    parent: the digest of the record before, None for the first. first: the oldest record that the log still has.
    attempt: made up for each try to append; tells our own record from another run's. run: facts about who wrote it.
    effects: what was done to sinks along with it. created_at: for people and retention, never for order. extra:
    fields of newer kits.
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
        """Over the canonical record without this field."""
        return digest(dumps_canonical(self._body, "record"))

    def to_bytes(self) -> bytes:
        """The record as stores keep it. Raises BadState: `run` or `effects` are no JSON."""
        return dumps_canonical({**self._body, "digest": self.digest}, "record")


def read_record(data: bytes, key: StateKey, seq: int, path: str) -> StateRecord:
    """The record of these bytes. Raises BadState naming the place, what was found and what was expected."""
    blob = loads_canonical(data, path)
    if not isinstance(blob, dict):
        raise BadState(path, blob, "an object")
    if blob.get("format") != FORMAT:
        raise BadState(f"{path} format", blob.get("format"), f"{FORMAT!r}; a newer kit may have written it: upgrade")
    expected_digest = blob.pop("digest", None)
    if expected_digest != (actual := digest(canonical(blob).encode())):
        raise BadState(
            f"{path} digest", actual, f"{expected_digest}: the record was changed or cut after it was written"
        )
    for name, expected in (("key", str(key)), ("seq", seq)):
        if blob.get(name) != expected:
            raise BadState(f"{path} {name}", blob.get(name), f"{expected!r}: the record lies in a wrong place")
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
