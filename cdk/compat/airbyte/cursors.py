"""Cursors of old custom components: fields that describe a `DatetimeBasedCursor` of the manifest."""

from collections.abc import Iterator
from dataclasses import InitVar, dataclass

from cdk.base.values import JsonValue
from cdk.compat.airbyte.http.requesters import RequestOption, RequestOptionsProvider
from cdk.compat.airbyte.interpolation import InterpolatedString, Text
from cdk.compat.airbyte.partition_routers import Placing
from cdk.compat.airbyte.plain_types import Config, Parameters


class DeclarativeCursor(RequestOptionsProvider):
    """A cursor that custom code writes as a whole. It can be imported, and not be used."""


class Cursor(DeclarativeCursor):
    """Another name of DeclarativeCursor, for imports."""


class ConcurrentCursorFactory:
    """Makes cursors of partitions. It can be imported, and not be used."""


class ConcurrentPerPartitionCursor(DeclarativeCursor):
    """A cursor of many partitions. It can be imported, and not be used."""


@dataclass
class DatetimeBasedCursor(Placing, DeclarativeCursor):
    """The manifest's cursor. A subclass may add to requests; windows and states stay those of the kit."""

    start_datetime: JsonValue
    cursor_field: Text
    datetime_format: str
    config: Config
    parameters: InitVar[Parameters]
    end_datetime: JsonValue = None
    step: JsonValue = None
    cursor_granularity: str | None = None
    start_time_option: RequestOption | None = None
    end_time_option: RequestOption | None = None
    partition_field_start: JsonValue = None
    partition_field_end: JsonValue = None
    lookback_window: JsonValue = None
    message_repository: object = None
    is_compare_strictly: bool | None = False
    cursor_datetime_formats: list[str] | None = None

    def __post_init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self.cursor_field = InterpolatedString.create(self.cursor_field, parameters=parameters)
        self._partition_field_start = InterpolatedString.create(
            self.partition_field_start or "start_time", parameters=parameters
        )
        self._partition_field_end = InterpolatedString.create(
            self.partition_field_end or "end_time", parameters=parameters
        )

    def _options(self) -> Iterator[tuple[RequestOption | None, str]]:
        yield self.start_time_option, self._partition_field_start.text(self.config)
        yield self.end_time_option, self._partition_field_end.text(self.config)
