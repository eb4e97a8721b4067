"""Incremental sync: `DatetimeBasedCursor` and `IncrementingCountCursor`."""

from collections.abc import Callable, Mapping
from datetime import datetime as datetime_type
from datetime import timedelta
from typing import Literal

from cdk.base.errors import ManifestError
from cdk.base.times.clock import assume_utc, format_problem, parse_timestamp
from cdk.base.values import JsonObject
from cdk.declarative.components.requests.request_options import RequestOption, put_at
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.stream_plug_points import AnyIncrementalSync, Incremental
from cdk.state.slice import Slice
from cdk.streams.count_cursor import CountCursor
from cdk.streams.datetime_cursor import Clamping, DatetimeCursor

_DAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
_DEFAULT_FORMAT = "%Y-%m-%dT%H:%M:%S.%f%z"


class MinMaxDatetime(Component):
    """A timestamp, limited to a minimum and a maximum.

    Example:
        type: MinMaxDatetime
        datetime: "{{ config.start_date }}"
        datetime_format: "%Y-%m-%d"
        max_datetime: "{{ now_utc() }}"
    """

    datetime: str
    """The timestamp."""
    datetime_format: str = ""
    """Format of the timestamp; the cursor's format by default."""
    min_datetime: str | None = None
    """The earliest possible result."""
    max_datetime: str | None = None
    """The latest possible result."""

    def timestamp(self, ctx: BuildContext, formats: list[str]) -> datetime_type:
        """Return the timestamp. formats: the default formats. Raises ManifestError: when it cannot be parsed."""
        known = [self.datetime_format] if self.datetime_format else [*formats, _DEFAULT_FORMAT]
        timestamp = _timestamp(self, "datetime", self.datetime, ctx, known)
        # A config may omit a limit: an expression that renders to an empty string sets none.
        if self.min_datetime and ctx.expression(self, "min_datetime").text():
            timestamp = max(timestamp, _timestamp(self, "min_datetime", self.min_datetime, ctx, known))
        if self.max_datetime and ctx.expression(self, "max_datetime").text():
            timestamp = min(timestamp, _timestamp(self, "max_datetime", self.max_datetime, ctx, known))
        return timestamp


class DatetimeBasedCursor(AnyIncrementalSync):
    """Advances by a date in the records, in windows of length `step`.

    Example:
        type: DatetimeBasedCursor
        cursor_field: updated_at
        datetime_format: "%Y-%m-%dT%H:%M:%SZ"
        start_datetime: "{{ config.start_date }}"
        step: P30D
        cursor_granularity: PT1S
        start_time_option: {type: RequestOption, inject_into: request_parameter, field_name: since}
        end_time_option: {type: RequestOption, inject_into: request_parameter, field_name: until}
    """

    cursor_field: str
    """The field of records that has the cursor value."""
    datetime_format: str
    """Format of timestamps in requests and in states."""
    start_datetime: str | MinMaxDatetime
    """Where the first read starts."""
    end_datetime: str | MinMaxDatetime | None = None
    """Where reads end; now by default."""
    step: str | None = None
    """Length of a window, ISO 8601; one window for everything by default."""
    cursor_granularity: str | None = None
    """The smallest difference between two timestamps of the API, ISO 8601."""
    cursor_datetime_formats: list[str] = []
    """Formats of timestamps in records, tried in order. In states and windows, `datetime_format` is tried first."""
    lookback_window: str | None = None
    """How far before its state a read starts again, ISO 8601."""
    start_time_option: RequestOption | None = None
    """Where in requests the start of a window goes."""
    end_time_option: RequestOption | None = None
    """Where in requests the end of a window goes."""
    partition_field_start: str | None = None
    """Name of the start of a window in expressions."""
    partition_field_end: str | None = None
    """Name of the end of a window in expressions."""
    is_data_feed: bool = False
    """The API returns the newest records first: stop at the first record that is too old. With numbered pages or
    offsets, an interrupted read starts again, because new records have shifted the pages.
    """
    is_client_side_incremental: bool = False
    """The API does not filter: drop records that are too old."""
    is_compare_strictly: bool = False
    """Omit a window that would start where it ends."""
    global_substream_cursor: bool = False
    """All partitions share one cursor."""
    allow_catalog_defined_cursor_field: bool = False
    """The catalog may choose the cursor field."""
    clamping: JsonObject | None = None
    """Align windows to whole days, weeks or months."""

    def build(self, ctx: BuildContext) -> Incremental:
        pattern = ctx.expression(self, "datetime_format").text()
        if problem := format_problem(pattern):
            raise ManifestError(f"{ctx.where(self, 'datetime_format')}: {problem}")
        formats = [*(ctx.expression(self, "cursor_datetime_formats", f).text() for f in self.cursor_datetime_formats)]
        step, granularity = ctx.duration(self, "step", None), ctx.duration(self, "cursor_granularity", None)
        if (step is None) != (granularity is None):
            where = ctx.where(self, "step")
            raise ManifestError(f"{where}: step and cursor_granularity require each other: set both or neither")
        self._start(ctx, pattern)
        cursor = DatetimeCursor(
            ctx.expression(self, "cursor_field").text(),
            formats=formats or [pattern],
            state_format=pattern,
            start=lambda: self._start(ctx, pattern),
            end=None if self.end_datetime is None else (lambda _: self._bound("end_datetime", ctx, pattern)),
            step=step,
            granularity=granularity,
            lookback=ctx.duration(self, "lookback_window", timedelta()),
            by_request=True,
            rereads_edge=granularity is not None and not self.is_compare_strictly,
            clamping=self._clamping(ctx),
        )
        fields = (
            ctx.expression(self, "partition_field_start").text() or "start_time",
            ctx.expression(self, "partition_field_end").text() or "end_time",
        )
        return Incremental(
            cursor,
            _window_options(self.start_time_option, self.end_time_option, ctx),
            fields,
            shared=self.global_substream_cursor,
            client_side=self.is_client_side_incremental,
            data_feed=self.is_data_feed,
            catalog_cursor=self.allow_catalog_defined_cursor_field,
        )

    def _start(self, ctx: BuildContext, pattern: str) -> datetime_type:
        return self._bound("start_datetime", ctx, pattern)

    def _bound(
        self, field: Literal["start_datetime", "end_datetime"], ctx: BuildContext, pattern: str
    ) -> datetime_type:
        match self.start_datetime if field == "start_datetime" else self.end_datetime:
            case MinMaxDatetime() as bound:
                return bound.timestamp(ctx, [pattern])
            case text:
                return _timestamp(self, field, text or "", ctx, [pattern])

    def _clamping(self, ctx: BuildContext) -> Clamping | None:
        if self.clamping is None:
            return None
        where = ctx.where(self, "clamping")
        details = self.clamping.get("target_details")
        day = str(details.get("weekday", "")).upper() if isinstance(details, Mapping) else ""
        match str(self.clamping.get("target", "")).upper():
            case "DAY" | "MONTH" as target:
                return Clamping(target)
            case "WEEK" if day in _DAYS:
                return Clamping("WEEK", _DAYS.index(day))
            case "WEEK":
                raise ManifestError(f"{where}: found the weekday {day!r}, expected one of {', '.join(_DAYS)}")
            case target:
                raise ManifestError(f"{where}: found the target {target!r}, expected DAY, WEEK or MONTH")


class IncrementingCountCursor(AnyIncrementalSync):
    """Advances by an increasing number in the records.

    Example:
        type: IncrementingCountCursor
        cursor_field: id
        start_value: 0
        start_value_option: {type: RequestOption, inject_into: request_parameter, field_name: since_id}
    """

    cursor_field: str
    """The field of records that has the cursor value."""
    start_value: int | str | None = None
    """Where the first read starts; 0 by default."""
    start_value_option: RequestOption | None = None
    """Where in requests the start value goes."""
    allow_catalog_defined_cursor_field: bool = False
    """The catalog may choose the cursor field."""

    def build(self, ctx: BuildContext) -> Incremental:
        """Build the cursor. Raises ManifestError: when `start_value` is not an integer."""
        start = ctx.integer(self, "start_value", 0)
        cursor = CountCursor(ctx.expression(self, "cursor_field").text(), start=start, by_request=True, as_numbers=True)
        return Incremental(
            cursor,
            _window_options(self.start_value_option, None, ctx),
            ("start", "end"),
            catalog_cursor=self.allow_catalog_defined_cursor_field,
        )


def _window_options(
    start: RequestOption | None, end: RequestOption | None, ctx: BuildContext
) -> Callable[[RequestBuilder, Slice], None]:
    """Return the function that puts the ends of a window into a request."""
    put_start, put_end = put_at(start, ctx), put_at(end, ctx)

    def apply(draft: RequestBuilder, slice: Slice) -> None:
        window = slice.window
        if put_start is not None:
            put_start(draft, None if window is None else window.start)
        if put_end is not None:
            put_end(draft, None if window is None else window.end)

    return apply


def _timestamp(component: Component, field: str, text: str, ctx: BuildContext, formats: list[str]) -> datetime_type:
    expression = ctx.expression(component, field, text)
    timestamp = parse_timestamp(str(expression.value()), formats)
    if timestamp is None:
        raise ctx.unfit(component, field, expression, f"a timestamp in the format {' or '.join(map(repr, formats))}")
    return assume_utc(timestamp)
