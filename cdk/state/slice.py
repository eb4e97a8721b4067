"""Partitions and slices, the units of a read: partitions say *which*, windows say *when*, a slice is one work unit."""

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from cdk.base.records.typed_json_lines import RecordType
from cdk.base.values import SCALARS, FieldValue, JsonObject, canonical, copied
from cdk.state.position import Edge, Position, Start
from cdk.state.window import Window


class Partition(Mapping[str, FieldValue]):
    """A part of the source, as a frozen, hashable map such as `{"repo": "a/b"}`; empty for a plain stream.

    Its identity is the canonical JSON of its fields: their order does not matter, the type of a value does.
    `extra` holds fields of the parent record for the stream's use; it is part of neither identity nor state.

    Raises TypeError: when JSON cannot represent a field's value.
    """

    __slots__ = ("_fields", "_key", "extra")

    def __init__(
        self, fields: Mapping[str, FieldValue] | None = None, /, *, extra: Mapping[str, FieldValue] | None = None
    ) -> None:
        # Copied, because the author's code may keep changing the objects that it passed in.
        self._fields = _own(fields)
        self._key = canonical(self._fields)
        self.extra: Mapping[str, FieldValue] = _own(extra)

    @classmethod
    def of(cls, **fields: FieldValue) -> "Partition":
        """Build a partition from keyword arguments: `Partition.of(repo="a/b")`."""
        return cls(fields)

    @property
    def bare(self) -> "Partition":
        """The same partition without `extra`, as a state stores it."""
        return Partition(self._fields) if self.extra else self

    @property
    def fields(self) -> JsonObject:
        """The fields as a dict. It is shared, so callers must not change it."""
        return self._fields

    @property
    def key(self) -> str:
        """The canonical JSON text that identifies this partition."""
        return self._key

    def __getitem__(self, name: str) -> FieldValue:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and self._key == other._key

    def __repr__(self) -> str:
        return f"Partition({self._fields!r})"


def _own(fields: Mapping[str, FieldValue] | None) -> dict[str, FieldValue]:
    own = dict(fields or {})
    for name, value in own.items():
        if type(value) not in SCALARS:
            own[name] = copied(value)
    return own


WHOLE = Partition()
"""The one partition of a plain stream."""


class Slice(Struct, frozen=True):
    """One unit of work, frozen and picklable: a partition, optionally a window of it, and where to start.

    `start` is where an earlier attempt stopped inside this slice. `edge` is what `sync` remembers of the records that
    the source will repeat, `met` what it remembers of the part of this slice before `start`.
    `holds`: another slice may emit the records without a cursor value, so `sync` holds back those it does not know.
    `owed`: digests, with counts, of the only records that this repeated slice is read for; None means all records.
    `record_type` is set where the slice is read, by the code that builds columns from its records, and never sent.
    """

    partition: Partition = WHOLE
    window: Window | None = None
    start: Position = field(default_factory=Start)
    edge: Edge | None = None
    met: Edge | None = None
    holds: bool = False
    owed: Mapping[str, int] | None = None
    record_type: RecordType | None = None

    @property
    def extra(self) -> Mapping[str, FieldValue]:
        """Fields of the parent record that accompany the partition."""
        return self.partition.extra

    def __str__(self) -> str:
        parts = [self.partition.key] if self.partition else []
        if self.window is not None:
            parts.append(f"[{self.window.start}, {self.window.end if self.window.end is not None else '…'}]")
        return " ".join(parts) or "whole stream"
