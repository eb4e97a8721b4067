"""The front door of spark-cdk: what a connector author needs."""

from typing import TYPE_CHECKING

from cdk.base.errors import (
    BadState,
    CatalogError,
    CdkError,
    ConfigError,
    CredentialsError,
    DecodeError,
    FatalError,
    Forbidden,
    NotFound,
    PaginationLoop,
    RateLimited,
    ReadError,
    ServerError,
    StaleToken,
    StateConflict,
    StateError,
    Timeout,
    TransientError,
)
from cdk.base.first_use import lazy_names
from cdk.base.values import Json, JsonSchema, Record
from cdk.state.position import Checkpoint, Done, Position, Start
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.state.window import Window
from cdk.streams.checkpoint.parent_state import ParentState
from cdk.streams.checkpoint.partitioned import PartitionCheckpointReader
from cdk.streams.checkpoint.reader import CheckpointReader, PageCheckpointReader, PartitionReader
from cdk.streams.checkpoint.windows import SliceCheckpointReader
from cdk.streams.count_cursor import CountCursor
from cdk.streams.cursor import Cursor
from cdk.streams.datetime_cursor import DatetimeCursor
from cdk.streams.order import CountOrder, NaturalOrder, Order, TimestampOrder
from cdk.streams.page import Item, Page
from cdk.streams.paged import PagedStream
from cdk.streams.partitions import following_partitions, list_partitions, parent_partitions, product, records_of
from cdk.streams.source import Source
from cdk.streams.state_mixin import IncrementalMixin, StateMixin
from cdk.streams.stream import Stream

if TYPE_CHECKING:  # an import of cdk does not pay for a command line
    from cdk.cli.app import launch

__all__ = [
    "BadState",
    "CatalogError",
    "CdkError",
    "Checkpoint",
    "CheckpointReader",
    "ConfigError",
    "CountCursor",
    "CountOrder",
    "CredentialsError",
    "Cursor",
    "DatetimeCursor",
    "DecodeError",
    "Done",
    "FatalError",
    "Forbidden",
    "IncrementalMixin",
    "Item",
    "Json",
    "JsonSchema",
    "NaturalOrder",
    "NotFound",
    "Order",
    "Page",
    "PageCheckpointReader",
    "PagedStream",
    "PaginationLoop",
    "ParentState",
    "Partition",
    "PartitionCheckpointReader",
    "PartitionReader",
    "Position",
    "RateLimited",
    "ReadError",
    "Record",
    "ServerError",
    "Slice",
    "SliceCheckpointReader",
    "Source",
    "StaleToken",
    "Start",
    "StateConflict",
    "StateError",
    "StateMixin",
    "Stream",
    "StreamState",
    "Timeout",
    "TimestampOrder",
    "TransientError",
    "Window",
    "following_partitions",
    "launch",
    "list_partitions",
    "parent_partitions",
    "product",
    "records_of",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)
