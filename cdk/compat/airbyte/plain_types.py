"""Slices, records, and aliases of plain types."""

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from cdk.base.values import JsonObject, JsonValue
from cdk.state.slice import Slice

Config: TypeAlias = Mapping[str, JsonValue]
Parameters: TypeAlias = Mapping[str, JsonValue]
StreamState: TypeAlias = Mapping[str, JsonValue]
StreamData: TypeAlias = Mapping[str, JsonValue]
FieldPointer: TypeAlias = list[str]
ConnectionDefinition: TypeAlias = Mapping[str, JsonValue]
RequestInput: TypeAlias = str | Mapping[str, str]
Token: TypeAlias = Mapping[str, JsonValue]
"""A page token, under the key `next_page_token`."""
EmptyString = ""
TState = TypeVar("TState")
"""Imported by the `source.py` of published packages, which is loaded together with the components beside it."""


class WithParameters:
    """Stores the `$parameters` of its component; custom subclasses call `super().__post_init__(parameters)`."""

    def __post_init__(self, parameters: Parameters) -> None:
        self._parameters = parameters or {}


class StreamSlice(JsonObject):
    """A slice as one map of partition fields and window bounds, which are also available separately.

    Raises ValueError: a field is in both.
    """

    native: Slice | None = None
    """The kit's slice that this one represents; None if custom code made it."""

    def __init__(
        self,
        *,
        partition: Mapping[str, JsonValue],
        cursor_slice: Mapping[str, JsonValue] | None = None,
        extra_fields: Mapping[str, JsonValue] | None = None,
    ) -> None:
        cursor_slice = cursor_slice or {}
        if both := partition.keys() & cursor_slice.keys():
            raise ValueError(f"a slice has {sorted(both)} both in its partition and in its cursor_slice")
        super().__init__({**partition, **cursor_slice})
        self.partition, self.cursor_slice, self.extra_fields = partition, cursor_slice, extra_fields or {}


class Record(JsonObject):
    """A record with its stream's name and its slice; `data` is the record itself."""

    def __init__(
        self,
        data: Mapping[str, JsonValue],
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
