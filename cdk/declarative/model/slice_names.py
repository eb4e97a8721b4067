"""What expressions see of a slice: `stream_slice`, under all its names."""

from collections.abc import Mapping

from cdk.base.values import JsonObject, JsonValue
from cdk.state.slice import Slice

FIRST_PAGE = "child_response"
"""The extra field of a partition that holds the first page of its records, where the parent's record brings it."""


class SliceView(JsonObject):
    """The fields of a slice's partition and the ends of its window.

    partition, cursor_slice: the two apart. window: the window itself. extra_fields: fields of the parent's record.
    """

    __slots__ = ("cursor_slice", "extra_fields", "partition", "window")

    def __init__(self, slice: Slice, cursor_slice: Mapping[str, JsonValue]) -> None:
        super().__init__({**slice.partition.fields, **cursor_slice})
        self.partition, self.cursor_slice, self.window = slice.partition, cursor_slice, slice.window
        self.extra_fields = slice.partition.extra

    @property
    def _partition(self) -> Mapping[str, JsonValue]:
        """The partition under another name that expressions use."""
        return self.partition


def view(slice: Slice, fields: tuple[str, str]) -> SliceView:
    """The slice as expressions see it. fields: the names of its window's start and end."""
    window: JsonObject = {}
    if slice.window is not None:
        window[fields[0]] = slice.window.start
        if slice.window.end is not None:
            window[fields[1]] = slice.window.end
    return SliceView(slice, window)


def slice_names(slice: SliceView) -> JsonObject:
    """The names under which a slice is seen; fields of the parent's record are names of their own."""
    return {**slice.extra_fields, "stream_slice": slice, "stream_partition": slice, "stream_interval": slice}
