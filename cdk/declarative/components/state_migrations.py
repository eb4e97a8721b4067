"""State migrations: old forms of a stream's state."""

from collections.abc import Callable, Mapping
from typing import Literal

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.declarative.component import Component
from cdk.declarative.components.retrievers import SimpleRetriever
from cdk.declarative.components.routers import PARENT_SLICE, ListPartitionRouter, SubstreamPartitionRouter
from cdk.declarative.components.streams import DeclarativeStream
from cdk.declarative.context import BuildContext
from cdk.declarative.families import AnyStateMigration


class LegacyToPerPartitionStateMigration(AnyStateMigration):
    """States that map a partition's value to its cursor, `{"13": {"updated_at": "..."}}`, become a list of partitions.

    Example:
        type: LegacyToPerPartitionStateMigration
    """

    type: Literal["LegacyToPerPartitionStateMigration"] = "LegacyToPerPartitionStateMigration"

    def build(self, ctx: BuildContext, stream: Component) -> Callable[[Json], Json]:
        """The migration. Raises ManifestError: the stream has not exactly one partition field."""
        router = None
        if isinstance(stream, DeclarativeStream) and isinstance(stream.retriever, SimpleRetriever):
            routers = stream.retriever.partition_router or []
            router = routers[0] if len(routers) == 1 else None
        extra: dict[str, Json] = {}
        match router:
            case SubstreamPartitionRouter(parent_stream_configs=[parent]):
                field, extra = ctx.expression(parent, "partition_field").text(), {PARENT_SLICE: {}}
            case ListPartitionRouter():
                field = ctx.expression(router, "cursor_field").text()
            case _:
                where = ctx.where(self, "type")
                raise ManifestError(f"{where}: expected a stream with one ListPartitionRouter, or one parent stream")

        def migrate(blob: Json) -> Json:
            if not isinstance(blob, Mapping) or not blob or "states" in blob or "use_global_cursor" in blob:
                return blob
            if not all(isinstance(cursor, Mapping) and len(cursor) == 1 for cursor in blob.values()):
                return blob
            states = [{"partition": {field: value, **extra}, "cursor": cursor} for value, cursor in blob.items()]
            return {"states": states}

        return migrate
