"""The names of a slice in expressions: `stream_slice` and its aliases."""

from collections.abc import Mapping

from cdk.base.values import JsonObject, JsonValue
from cdk.state.slice import Slice

FIRST_PAGE = "child_response"
"""The extra field of a partition for the first page of its records, if the parent's record contains that page."""


PARENT_SLICE = "parent_slice"
"""The key in a partition for the fields of its parent's partition."""


class SliceView(JsonObject):
    """The fields of a slice's partition and the ends of its window, as one object.

    partition, cursor_slice: the two separately. window: the window itself. extra_fields: fields of the parent's record.
    """

    __slots__ = ("cursor_slice", "extra_fields", "partition", "window")

    def __init__(self, slice: Slice, cursor_slice: Mapping[str, JsonValue]) -> None:
        super().__init__({**slice.partition.fields, **cursor_slice})
        self.partition, self.cursor_slice, self.window = slice.partition, cursor_slice, slice.window
        self.extra_fields = slice.partition.extra

    @property
    def _partition(self) -> Mapping[str, JsonValue]:
        """An alias of `partition` that expressions use."""
        return self.partition


def view(slice: Slice, fields: tuple[str, str]) -> SliceView:
    """Return the slice as expressions see it. fields: the names of its window's start and end."""
    return SliceView(slice, window_fields(slice, fields))


def window_fields(slice: Slice, fields: tuple[str, str]) -> JsonObject:
    """Return the ends of a slice's window, as far as it has them, under the names in `fields`."""
    window = slice.window
    if window is None:
        return {}
    return {fields[0]: window.start, **({} if window.end is None else {fields[1]: window.end})}


def slice_names(slice: SliceView) -> JsonObject:
    """Return the names of a slice in expressions; fields of the parent's record are names of their own."""
    return {**slice.extra_fields, "stream_slice": slice, "stream_partition": slice, "stream_interval": slice}
