"""Partition routers: split a stream into partitions, each of which is read separately."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, TypeAlias

from msgspec import Meta

from cdk.base.errors import ManifestError
from cdk.base.logs import FirstWarning, warn
from cdk.base.values import JsonObject, JsonValue, Record, canonical, json_kind
from cdk.declarative.components.requests.request_options import Put, RequestOption, is_empty, put_at
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext, Expression
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.slice_names import FIRST_PAGE, PARENT_SLICE
from cdk.declarative.model.stream_plug_points import AnyPartitionRouter, AnyStream, Router
from cdk.declarative.reading.parents_in_turn import PartitionOrigin, PartitionsInTurn
from cdk.declarative.reading.partition_groups import PartitionGroups
from cdk.rest import Extract, path
from cdk.rest.http.json_path import absence
from cdk.state.slice import Partition, Slice
from cdk.state.stream_state import StreamState
from cdk.streams.checkpoint.parent_state import ParentState, without_states
from cdk.streams.partitions import child_partitions, list_partitions, product


class ListPartitionRouter(AnyPartitionRouter):
    """Makes one partition for each value of a list.

    Example:
        type: ListPartitionRouter
        cursor_field: region
        values: [eu, us]
        request_option: {type: RequestOption, inject_into: request_parameter, field_name: region}
    """

    cursor_field: str
    """Name of the partition's field that has the value."""
    values: str | list[JsonValue]
    """The values, or an expression that returns a list of them."""
    request_option: RequestOption | None = None
    """Where in requests the value goes."""

    def build(self, ctx: BuildContext) -> Router:
        """Build the router. Its partitions raise ManifestError: when the values are not a list."""
        name = ctx.expression(self, "cursor_field").text()
        return _Listed(name, partial(self._values, ctx, FirstWarning()), put_at(self.request_option, ctx))

    def _values(self, ctx: BuildContext, warning: FirstWarning) -> Sequence[JsonValue]:
        """Return the values: strings if the manifest lists them, values of any type if an expression returns them.

        Warns of an expression that is empty because what it reads is missing, such as a misspelt field of the config.
        """
        if not isinstance(self.values, str):
            each = [ctx.expression(self, "values", value) for value in self.values]
            texts = [expression.text() for expression in each]
            for expression, text in zip(each, texts, strict=True):
                if not text:
                    _warn_of_missing(ctx.where(self, "values"), expression, "an empty value", warning)
            return texts
        expression = ctx.expression(self, "values")
        values = expression.value()
        if isinstance(values, str):
            if not values:
                _warn_of_missing(ctx.where(self, "values"), expression, "no values, so nothing is read", warning)
            return [values] if values else []
        if not isinstance(values, Sequence):
            raise ManifestError(f"{ctx.where(self, 'values')}: found {json_kind(values)}, expected a list of values")
        return values


def _warn_of_missing(where: str, expression: Expression, actual: str, warning: FirstWarning) -> None:
    if absent := expression.missing():
        warning(f"{where}: found {actual}: it reads {absent}")


class _Listed(Router):
    """The partitions made from a list."""

    def __init__(self, name: str, values: Callable[[], Sequence[JsonValue]], put: Put | None) -> None:
        self._name, self._values, self._put = name, values, put

    def partitions(self, parents: Mapping[str, StreamState]) -> Iterable[Partition]:
        return list_partitions(self._name, self._values())

    def apply(self, draft: RequestBuilder, slice: Slice) -> None:
        if self._put is not None and not is_empty(value := slice.partition.get(self._name)):
            self._put(draft, value)


class ParentStreamConfig(Component):
    """A parent stream: each of its records makes a partition.

    Example:
        type: ParentStreamConfig
        stream: {$ref: "#/definitions/projects"}
        parent_key: id
        partition_field: project_id
    """

    stream: AnyStream
    """The parent stream."""
    parent_key: str
    """The field of the parent's record that identifies it; a path has slashes between its names."""
    partition_field: str
    """Name of the partition's field that has the value of `parent_key`."""
    request_option: RequestOption | None = None
    """Where in requests the value goes."""
    incremental_dependency: bool = False
    """Whether only parent records that changed since the last read make partitions."""
    lazy_read_pointer: list[str] = []
    """Path in the parent's record of the first page of its children, which is requested if the path is missing. An
    empty list means that there are no children.
    """
    extra_fields: list[list[str]] | None = None
    """Paths of fields of the parent's record that expressions can read."""


class SubstreamPartitionRouter(AnyPartitionRouter):
    """Makes one partition for each record of a parent stream.

    Example:
        type: SubstreamPartitionRouter
        parent_stream_configs:
          - type: ParentStreamConfig
            stream: {$ref: "#/definitions/projects"}
            parent_key: id
            partition_field: project_id
    """

    parent_stream_configs: Annotated[list[ParentStreamConfig], Meta(min_length=1)]
    """The parent streams, which are read one after the other."""

    @property
    def brings_first_page(self) -> bool:
        return any(config.lazy_read_pointer for config in self.parent_stream_configs)

    def build(self, ctx: BuildContext) -> Router:
        return _Substream(ctx.stream, [_Parent(config, ctx) for config in self.parent_stream_configs])


class _Parent:
    """One parent of a substream."""

    def __init__(self, config: ParentStreamConfig, ctx: BuildContext) -> None:
        self.stream = config.stream.build(ctx, as_parent=True)
        self.field = ctx.expression(config, "partition_field").text()
        self.option, self.put = config.request_option, put_at(config.request_option, ctx)
        self.followed = [self.stream] if config.incremental_dependency else []
        self._key = ctx.expression(config, "parent_key").text().strip("/").split("/")
        self._value: Extract = path(*self._key)
        self._name = ctx.stream
        self._extra = [(".".join(names), path(*names)) for names in config.extra_fields or ()]
        if config.lazy_read_pointer:
            names = ctx.strings(config, "lazy_read_pointer")
            self._extra.append((FIRST_PAGE, path(*names)))

    def partitions(self, parents: Mapping[str, StreamState]) -> Iterator[Partition | ParentState]:
        """Yield the partitions made from the parent's records, and the parent's progress if it is followed.

        At the end, warn about records that lack the field, or if it is null in all records: nothing is read for these.
        """
        records, lacking, why = 0, 0, ""

        def child(record: Record, partition: Partition) -> Partition | None:
            nonlocal records, lacking, why
            records += 1
            if (value := self._value(record)) is None:
                lacking += 1
                why = why or absence(record, self._key, "the first of them")
                return None
            extra = {name: get(record) for name, get in self._extra} if self._extra else None
            return Partition({self.field: value, PARENT_SLICE: dict(partition.fields)}, extra=extra)

        if self.followed:
            yield from child_partitions(self.stream, child, parents.get(self.stream.name))
        else:
            yield from without_states(child_partitions(self.stream, child))
        if lacking and (why or lacking == records):
            warn(
                f"{self._name}: {lacking} of {records} records of its parent {self.stream.name!r} have no value at "
                f"parent_key {'/'.join(self._key)!r}, so no partitions are read for them{why and f': there is {why}'}; "
                "correct parent_key, unless the source omits it on purpose"
            )


class _Substream(Router):
    """The partitions of all parents."""

    def __init__(self, stream: str, parents: Sequence[_Parent]) -> None:
        self._all = PartitionsInTurn(
            stream, [PartitionOrigin(parent.followed, parent.partitions) for parent in parents]
        )
        self.parents, self.followed = [parent.stream for parent in parents], self._all.followed
        # Parents may share a field and its option: put the value once.
        puts = {(parent.field, str(parent.option)): parent.put for parent in parents}
        self._puts = [(field, put) for (field, _), put in puts.items() if put is not None]

    def partitions(self, parents: Mapping[str, StreamState]) -> Iterator[Partition | ParentState]:
        return self._all.partitions(parents)

    def apply(self, draft: RequestBuilder, slice: Slice) -> None:
        for field, put in self._puts:
            if not is_empty(value := slice.partition.get(field)):
                put(draft, value)


class GroupingPartitionRouter(AnyPartitionRouter):
    """Groups the partitions of another router, so that one request covers several of them.

    Example:
        type: GroupingPartitionRouter
        group_size: 10
        underlying_partition_router:
          type: ListPartitionRouter
          cursor_field: id
          values: ["1", "2", "3"]
    """

    group_size: Annotated[int, Meta(ge=1)]
    """Number of partitions in a group."""
    underlying_partition_router: AnyPartitionRouter
    """The router whose partitions are grouped."""
    deduplicate: bool = True
    """Whether duplicate values are omitted."""

    def build(self, ctx: BuildContext) -> Router:
        inner = self.underlying_partition_router
        unsent = "" if not sends(inner) else _UNSENT.format(ctx.where(self, "underlying_partition_router"))
        return PartitionGroups(inner.build(ctx), self.group_size, deduplicate=self.deduplicate, warning=unsent)


_UNSENT = (
    "{}: its `request_option` is not sent, for a group has a list of values and Airbyte sends none; write them into "
    "the request, such as `request_parameters: {{id: \"{{{{ stream_partition['id'] | join(',') }}}}\"}}`"
)


def sends(router: AnyPartitionRouter) -> bool:
    """Whether a router puts the values of its partitions into requests."""
    match router:
        case ListPartitionRouter():
            return router.request_option is not None
        case SubstreamPartitionRouter():
            return any(config.request_option is not None for config in router.parent_stream_configs)
        case _:
            return False


class UnionPartitionRouter(AnyPartitionRouter):
    """Merges the partitions of several routers under one field, without duplicate values.

    Example:
        type: UnionPartitionRouter
        partition_field: id
        partition_routers:
          - {type: ListPartitionRouter, cursor_field: id, values: ["1"]}
          - {type: ListPartitionRouter, cursor_field: other_id, values: ["1", "2"]}
    """

    partition_field: str
    """Name of the partition's field that has the value."""
    partition_routers: Annotated[list[AnyPartitionRouter], Meta(min_length=2)]
    """The routers, in order."""

    def build(self, ctx: BuildContext) -> Router:
        name = ctx.expression(self, "partition_field").text()
        return _United(name, ctx.stream, [router.build(ctx) for router in self.partition_routers])


class _United(Router):
    """The partitions of several routers, with each value once."""

    def __init__(self, name: str, stream: str, routers: Sequence[Router]) -> None:
        self._name = name
        self._all = PartitionsInTurn(
            stream, [PartitionOrigin(router.followed, router.partitions) for router in routers]
        )
        self.parents = [parent for router in routers for parent in router.parents]
        self.followed = self._all.followed

    def partitions(self, parents: Mapping[str, StreamState]) -> Iterator[Partition | ParentState]:
        keys: set[str] = set()
        for item in self._all.partitions(parents):
            match item:
                case ParentState():
                    yield item
                case Partition() if fields := {name: value for name, value in item.items() if name != PARENT_SLICE}:
                    value = fields.pop(self._name if self._name in fields else next(iter(fields)))
                    if (key := canonical(value)) not in keys:
                        keys.add(key)
                        yield Partition({self._name: value}, extra={**item.extra, **fields, **_parent_slice(item)})
                case _:
                    pass


def _parent_slice(partition: Partition) -> JsonObject:
    return {PARENT_SLICE: partition[PARENT_SLICE]} if PARENT_SLICE in partition else {}


class Product(Router):
    """Every combination of the partitions of several routers, the last varying fastest. Parents are not followed."""

    def __init__(self, routers: Sequence[Router]) -> None:
        self._routers = routers

    def partitions(self, parents: Mapping[str, StreamState]) -> Iterator[Partition]:
        return product(*(without_states(router.partitions({})) for router in self._routers), shared_fields=True)

    def apply(self, draft: RequestBuilder, slice: Slice) -> None:
        for router in self._routers:
            router.apply(draft, slice)


PartitionRouters: TypeAlias = Annotated[
    AnyPartitionRouter | list[AnyPartitionRouter] | None,
    Meta(description="The partitions, each of which is read separately; a list of routers means every combination."),
]
"""The routers of a retriever: none, one, or a list, of which even one is a product: its parents are not followed."""


def router_of(written: PartitionRouters, ctx: BuildContext) -> Router | None:
    """Return one router for all those of a retriever; None if it has no routers."""
    routers = [component.build(ctx) for component in listed_routers(written)]
    if not isinstance(written, list):
        return routers[0] if routers else None
    return Product(routers) if routers else None


def listed_routers(written: PartitionRouters) -> Sequence[AnyPartitionRouter]:
    """Return the routers of a retriever, however they are written."""
    if written is None:
        return ()
    return written if isinstance(written, list) else [written]
