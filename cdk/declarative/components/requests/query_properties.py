"""QueryProperties: which properties of its records a stream requests, and in how many requests."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from cdk.base.values import JsonObject, JsonValue
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import NO_NAMES, BuildContext
from cdk.declarative.model.query_properties import Properties, by_count, by_key, by_length, joined_record
from cdk.declarative.model.request_plug_points import AnyTransformation
from cdk.declarative.model.stream_plug_points import AnyRetriever, StreamParts
from cdk.rest import path
from cdk.state.slice import Slice
from cdk.streams.page import records_in


class GroupByKeyMergeStrategy(Component):
    """Merges the records of several requests that have the same key.

    Example:
        type: GroupByKeyMergeStrategy
        key: id
    """

    key: str | list[str]
    """The key field, or the fields of a composite key."""

    def build(self, ctx: BuildContext) -> Callable[[JsonObject], JsonValue]:
        """Return the function that computes the key of a record; None if a part of the key is missing."""
        names = [self.key] if isinstance(self.key, str) else self.key
        fields = [ctx.expression(self, "key", name).text() for name in names]

        def key(record: JsonObject) -> JsonValue:
            values = [record.get(name) for name in fields]
            return None if None in values else values

        return key


class PropertyChunking(Component):
    """Limits how many properties one request may ask for.

    Example:
        type: PropertyChunking
        property_limit_type: property_count
        property_limit: 100
        record_merge_strategy: {type: GroupByKeyMergeStrategy, key: id}
    """

    property_limit_type: Literal["characters", "property_count"]
    """The unit of the limit."""
    property_limit: Annotated[int | None, Meta(ge=1)] = None
    """The maximum per request; no limit by default."""
    record_merge_strategy: GroupByKeyMergeStrategy | None = None
    """How records of several requests are matched; by the field `id` by default."""

    def build(self) -> Callable[[Sequence[str]], Iterable[list[str]]]:
        """Return the function that groups properties."""
        if self.property_limit is None:
            return joined_record
        return (by_length if self.property_limit_type == "characters" else by_count)(self.property_limit)


class JsonSchemaPropertySelector(Component):
    """Requests only those properties that the catalog selects.

    Example:
        type: JsonSchemaPropertySelector
        transformations:
          - {type: KeysReplace, old: properties_, new: ""}
    """

    transformations: list[AnyTransformation] = []
    """Transformations of the catalog's properties before they are compared, as if they were a record."""

    def build(self, ctx: BuildContext) -> Callable[[Sequence[str]], Sequence[str]]:
        """Return the function that keeps the selected properties; all of them if no catalog lists the stream."""
        transforms = [item.build(ctx) for item in self.transformations]

        def select(properties: Sequence[str]) -> Sequence[str]:
            chosen = ctx.runtime.selected.get(ctx.stream)
            if chosen is None:
                return properties
            selected: JsonObject = {name: {} for name in chosen}
            for transform in transforms:
                transform([selected], NO_NAMES)
            return [name for name in properties if name in selected]

        return select


class PropertiesFromEndpoint(Component):
    """Reads the names of the properties with a request, which is sent once.

    Example:
        type: PropertiesFromEndpoint
        property_field_path: [name]
        retriever:
          type: SimpleRetriever
          requester: {type: HttpRequester, url: "https://api.example.com/properties"}
          record_selector:
            type: RecordSelector
            extractor: {type: DpathExtractor, field_path: [results]}
    """

    property_field_path: Annotated[list[str], Meta(min_length=1)]
    """Path of the property's name in a record."""
    retriever: AnyRetriever
    """Reads the properties, as records."""

    def build(self, ctx: BuildContext) -> Callable[[], Sequence[str]]:
        """Return the function that loads the properties."""
        reader = self.retriever.build(ctx, StreamParts(f"{ctx.stream} properties"))
        find = path(*ctx.strings(self, "property_field_path"))

        def load() -> Sequence[str]:
            values = map(find, records_in(reader.read(Slice())))
            return [str(name) for name in values if name is not None]

        return load


class QueryProperties(Component):
    """The properties that a request asks for. Expressions read them as `query_properties`, a list of strings.

    Example:
        type: QueryProperties
        property_list: [name, email, phone]
        always_include_properties: [id]
        property_chunking:
          type: PropertyChunking
          property_limit_type: property_count
          property_limit: 2
    """

    property_list: list[str] | PropertiesFromEndpoint
    """The properties, or the request that returns them."""
    always_include_properties: list[str] | None = None
    """Properties that every request includes."""
    property_chunking: PropertyChunking | None = None
    """How the properties are divided among several requests; one request has all of them by default."""
    property_selector: JsonSchemaPropertySelector | None = None
    """Which of the properties are requested."""

    def build(self, ctx: BuildContext) -> Properties:
        """Return the properties, in groups for one request each."""
        load: Callable[[], Sequence[str]]
        match self.property_list:
            case PropertiesFromEndpoint() as endpoint:
                load = endpoint.build(ctx)
            case listed:
                load = lambda: listed  # noqa: E731 - like the case above
        select = None if self.property_selector is None else self.property_selector.build(ctx)
        chunking = self.property_chunking
        strategy = None if chunking is None else chunking.record_merge_strategy
        return Properties(
            load if select is None else lambda: select(load()),
            joined_record if chunking is None else chunking.build(),
            by_key((strategy or GroupByKeyMergeStrategy(key="id")).build(ctx), ctx.where(self, "property_chunking")),
            self.always_include_properties or (),
        )
