"""State migrations: convert old forms of a stream's state."""

from collections.abc import Callable, Mapping

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject, JsonValue
from cdk.declarative.components.custom import CustomPartitionRouter
from cdk.declarative.components.streams.partition_routers import (
    ListPartitionRouter,
    SubstreamPartitionRouter,
    UnionPartitionRouter,
)
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.slice_names import PARENT_SLICE
from cdk.declarative.model.stream_plug_points import AnyStateMigration, AnyStream


class LegacyToPerPartitionStateMigration(AnyStateMigration):
    """Converts states that map a partition's value to its cursor, `{"13": {"updated_at": "..."}}`, to partition lists.

    Example:
        type: LegacyToPerPartitionStateMigration
    """

    def build(self, ctx: BuildContext, stream: AnyStream) -> Callable[[JsonValue], JsonValue]:
        """Build the migration. Raises ManifestError: when the stream does not have exactly one partition field."""
        fields = self._fields(ctx, stream)
        cursor = _cursor_field(ctx, stream)

        def migrate(blob: JsonValue) -> JsonValue:
            if fields is None or not isinstance(blob, Mapping) or not blob or "states" in blob:
                return blob
            if not all(isinstance(item, Mapping) and list(item) == [cursor] for item in blob.values()):
                return blob
            name, extra = fields
            return {"states": [{"partition": {name: value, **extra}, "cursor": at} for value, at in blob.items()]}

        return migrate

    def _fields(self, ctx: BuildContext, stream: AnyStream) -> tuple[str, JsonObject] | None:
        """Return the name of the partition field, and the other fields; None if such states never existed."""
        match stream.routers:
            case [SubstreamPartitionRouter(parent_stream_configs=[parent])]:
                return ctx.expression(parent, "partition_field").text(), {PARENT_SLICE: {}}
            case [SubstreamPartitionRouter()]:
                return None
            case [ListPartitionRouter() as router]:
                return ctx.expression(router, "cursor_field").text(), {}
            case [UnionPartitionRouter() as router]:
                return ctx.expression(router, "partition_field").text(), {}
            case [CustomPartitionRouter() as router] if isinstance(parents := _extra(router), list) and parents:
                first = parents[0] if len(parents) == 1 and isinstance(parents[0], Mapping) else {}
                field = first.get("partition_field")
                return None if field is None else (ctx.expression(router, "class_name", str(field)).text(), {})
            case _:
                where = ctx.where(self, "type")
                raise ManifestError(
                    f"{where}: expected a stream with one partition_router: a ListPartitionRouter, a "
                    "UnionPartitionRouter, or one with parent_stream_configs"
                )


def _cursor_field(ctx: BuildContext, stream: AnyStream) -> str:
    cursor = getattr(stream, "incremental_sync", None)
    return "" if cursor is None else ctx.expression(cursor, "cursor_field").text()


def _extra(router: CustomPartitionRouter) -> JsonValue:
    return router.further_fields.get("parent_stream_configs")
