"""Slices, records and the names of plain types."""

from collections.abc import Mapping
from typing import TypeAlias

from cdk.base.values import Json
from cdk.state.slice import Slice

Config: TypeAlias = Mapping[str, Json]
StreamState: TypeAlias = Mapping[str, Json]
StreamData: TypeAlias = Mapping[str, Json]
FieldPointer: TypeAlias = list[str]
ConnectionDefinition: TypeAlias = Mapping[str, Json]
RequestInput: TypeAlias = str | Mapping[str, str]
EmptyString = ""


class StreamSlice(dict[str, Json]):
    """The fields of a partition and the ends of a window in one map, and the two apart.

    ours: the slice of ours that it shows; None for one that custom code made. Raises ValueError: a field is in both.
    """

    def __init__(
        self,
        *,
        partition: Mapping[str, Json],
        cursor_slice: Mapping[str, Json] | None = None,
        extra_fields: Mapping[str, Json] | None = None,
    ) -> None:
        cursor_slice = cursor_slice or {}
        if both := partition.keys() & cursor_slice.keys():
            raise ValueError(f"a slice has {sorted(both)} in its partition and in its cursor_slice")
        super().__init__({**partition, **cursor_slice})
        self.partition, self.cursor_slice = partition, cursor_slice
        self.extra_fields = extra_fields or {}
        self.ours: Slice | None = None


class Record(dict[str, Json]):
    """A record that knows its stream and its slice; `data` is the record itself."""

    def __init__(
        self,
        data: Mapping[str, Json],
        stream_name: str = "",
        associated_slice: StreamSlice | None = None,
        *_: object,
        **__: object,
    ) -> None:
        super().__init__(data)
        self.stream_name, self.associated_slice = stream_name, associated_slice

    @property
    def data(self) -> "Record":
        return self
