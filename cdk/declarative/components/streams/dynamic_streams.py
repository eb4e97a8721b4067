"""Streams made from a template: `DynamicDeclarativeStream`, and the resolvers that decide which streams to make."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from cdk.base.errors import ManifestError
from cdk.base.logs import warn
from cdk.base.values import PYTHON_TYPES, JsonObject, JsonValue
from cdk.declarative.model.component import ONE_OR_MANY, Component
from cdk.declarative.model.context import BuildContext, Names
from cdk.declarative.model.declared_stream import DeclaredStream
from cdk.declarative.model.stream_plug_points import AnyComponentsResolver, AnyRetriever, AnyStreams, StreamParts
from cdk.declarative.syntax.parameters import propagate
from cdk.declarative.syntax.stream_templates import Setting, filled
from cdk.declarative.syntax.validation import validated
from cdk.rest import path
from cdk.state.slice import WHOLE, Slice
from cdk.streams.checkpoint.parent_state import without_states
from cdk.streams.page import Page, PageWarnings, ReadPage, records_in


class ComponentMappingDefinition(Component):
    """A value to set in each copy of a template.

    Example:
        type: ComponentMappingDefinition
        field_path: [name]
        value: "{{ components_values['name'] }}"
    """

    field_path: Annotated[list[str], Meta(min_length=1)]
    """Path in the template; `*` stands for any key or index."""
    value: str
    """The value; reads `components_values` and `stream_template_config`."""
    value_type: Literal["string", "number", "integer", "boolean"] | None = None
    """The only type of literal that rendered text may become."""
    create_or_update: bool = False
    """Whether a path that the template lacks is created."""
    condition: str | None = None
    """Whether to set the value."""

    def build(self, ctx: BuildContext, *, as_yaml: bool) -> Setting:
        """Return the setting. as_yaml: whether a rendered string is parsed as YAML."""
        return Setting(
            name=f"{self.type_name}, {' > '.join(self.field_path)}",
            path=[ctx.expression(self, "field_path", part) for part in self.field_path],
            value=ctx.expression(self, "value"),
            create=self.create_or_update,
            when=ctx.expression(self, "condition") if self.condition else None,
            types=PYTHON_TYPES.get(self.value_type or "", ()),
            as_yaml=as_yaml and self.value_type != "string",
        )


class _Resolver(AnyComponentsResolver):
    type_name = None

    components_mapping: list[ComponentMappingDefinition]
    """The values to set in each copy of the template."""
    _as_yaml: ClassVar[bool] = True
    """Whether a rendered string is parsed as YAML."""

    def build(self, ctx: BuildContext) -> Callable[[Mapping[str, JsonValue]], Iterator[Mapping[str, JsonValue]]]:
        """Return the function that makes copies of a template. It sends requests, if any, only when it is called."""
        scopes = self._scopes(ctx)
        settings = [item.build(ctx, as_yaml=self._as_yaml) for item in self.components_mapping]
        return lambda template: filled(
            template, settings, ({**names, "stream_template_config": template} for names in scopes())
        )

    @abstractmethod
    def _scopes(self, ctx: BuildContext) -> Callable[[], Iterator[Names]]:
        """Return the function that yields the names for each copy."""


class HttpComponentsResolver(_Resolver):
    """Makes one stream for each record that a retriever reads.

    Example:
        type: HttpComponentsResolver
        retriever:
          type: SimpleRetriever
          requester: {type: HttpRequester, url: "https://api.example.com/tables"}
          record_selector:
            type: RecordSelector
            extractor: {type: DpathExtractor, field_path: []}
        components_mapping:
          - {type: ComponentMappingDefinition, field_path: [name], value: "{{ components_values['name'] }}"}
    """

    retriever: AnyRetriever
    """Reads the records, each of which makes a stream."""
    _as_yaml = False

    def _scopes(self, ctx: BuildContext) -> Callable[[], Iterator[Names]]:
        reader = self.retriever.build(ctx, StreamParts("components resolver"))
        where = ctx.where(self, "retriever")

        def scopes() -> Iterator[Names]:
            partitions, listed = [WHOLE] if reader.router is None else reader.router.partitions({}), False
            warnings = PageWarnings(resumed=False)
            for partition in without_states(partitions):
                for item in reader.read(Slice(partition)):
                    if isinstance(item, Page):
                        warnings.add(_warned(item, where))
                    for record in records_in([item]):
                        listed = True
                        yield {"components_values": record, "stream_slice": partition}
            warnings.end()
            if not listed:
                warn("the API lists no streams; check what the credentials may read", where)

        return scopes


def _warned(page: Page, where: str) -> ReadPage:
    """Return the warning and the doubt of a page of the list, with the place of its retriever."""

    def doubt() -> str:
        reason = "" if page.doubt is None else page.doubt()
        return reason and f"{where}: {reason}"

    warning = page.warning and f"{where}: {page.warning}"
    return ReadPage((), warning=warning, explain_doubt=doubt, followed=page.next is not None)


class StreamConfig(Component):
    """A list in the config; each of its items makes a stream.

    Example:
        type: StreamConfig
        configs_pointer: [tables]
        default_values: [{name: main}]
    """

    configs_pointer: list[str]
    """Path of the list in the config."""
    default_values: list[JsonValue] | None = None
    """Items in addition to those of the config."""

    def items(self, ctx: BuildContext) -> list[JsonValue]:
        value = path(*ctx.strings(self, "configs_pointer"))(ctx.config)
        own = value if isinstance(value, list) else [] if value is None else [value]
        return [*own, *(self.default_values or [])]


class ConfigComponentsResolver(_Resolver):
    """Makes one stream for each item of a list in the config; with several lists, for each combination of items.

    Example:
        type: ConfigComponentsResolver
        stream_config: {type: StreamConfig, configs_pointer: [tables]}
        components_mapping:
          - {type: ComponentMappingDefinition, field_path: [name], value: "{{ components_values['name'] }}"}
    """

    stream_config: Annotated[list[StreamConfig], ONE_OR_MANY]
    """The list, or several lists."""

    def _scopes(self, ctx: BuildContext) -> Callable[[], Iterator[Names]]:
        def scopes() -> Iterator[Names]:
            for items in product(*(enumerate(config.items(ctx)) for config in self.stream_config)):
                yield {"components_values": _combined(items)}

        return scopes


def _combined(items: Iterable[tuple[int, JsonValue]]) -> JsonObject:
    """Return the merged keys of one combination's items, each with its index in its list.

    An item of list `n` that is not an object has the key `source_config_n`, and comes with its index.
    """
    combined: JsonObject = {}
    for n, (index, item) in enumerate(items):
        if isinstance(item, Mapping):
            combined |= item
        else:
            combined.setdefault(f"source_config_{n}", (index, item))
    return combined


class StreamParametersDefinition(Component):
    """The parameters of each stream, listed in the manifest.

    Example:
        type: StreamParametersDefinition
        list_of_parameters_for_stream: [{name: users}, {name: teams}]
    """

    list_of_parameters_for_stream: list[JsonObject]
    """The parameters of each stream, one object per stream."""


class ParametrizedComponentsResolver(_Resolver):
    """Makes one stream for each object of a list in the manifest.

    Example:
        type: ParametrizedComponentsResolver
        stream_parameters:
          type: StreamParametersDefinition
          list_of_parameters_for_stream: [{name: users}, {name: teams}]
        components_mapping:
          - {type: ComponentMappingDefinition, field_path: [name], value: "{{ components_values['name'] }}"}
    """

    stream_parameters: StreamParametersDefinition
    """The parameters of the streams."""

    def _scopes(self, ctx: BuildContext) -> Callable[[], Iterator[Names]]:
        return lambda: (
            {"components_values": values} for values in self.stream_parameters.list_of_parameters_for_stream
        )


class DynamicDeclarativeStream(Component, kw_only=True):
    """Makes streams from a template.

    Example:
        type: DynamicDeclarativeStream
        name: tables
        stream_template:
          type: DeclarativeStream
          name: ""
          retriever:
            type: SimpleRetriever
            requester: {type: HttpRequester, url: "https://api.example.com/"}
            record_selector:
              type: RecordSelector
              extractor: {type: DpathExtractor, field_path: []}
        components_resolver:
          type: ConfigComponentsResolver
          stream_config: {type: StreamConfig, configs_pointer: [tables]}
          components_mapping:
            - {type: ComponentMappingDefinition, field_path: [name], value: "{{ components_values['name'] }}"}
    """

    name: str = ""
    """Name of the template, which the check refers to."""
    stream_template: JsonObject
    """The stream that is copied."""
    components_resolver: AnyComponentsResolver
    """Determines which streams are made from the template."""
    use_parent_parameters: bool = True
    """Whether inherited parameters take precedence over those of the template."""

    def streams(self, ctx: BuildContext) -> Iterator[DeclaredStream]:
        """Yield the streams for the config. Raises ManifestError: when a copy of the template is not a valid stream."""
        for number, blob in enumerate(self.components_resolver.build(ctx)(self.stream_template), 1):
            document = propagate(
                {"type": "DeclarativeStream", **blob}, inherited=self.parameters, parent_wins=self.use_parent_parameters
            )
            for stream in streams_of_copy(document, ctx, self.name):
                if not stream.name:
                    why = f"found no name for stream {number}, expected a string; `components_mapping` has to set it"
                    raise ManifestError(f"the streams of {self.name!r}: {why}")
                stream.copy = document
                yield stream


def streams_of_copy(document: Mapping[str, JsonValue], ctx: BuildContext, template: str) -> Iterator[DeclaredStream]:
    """Yield the streams of a filled copy of a template. Raises ManifestError: when the copy is not a valid stream."""
    kind = Component.registry.get(str(document["type"]))
    if kind is None:
        raise ManifestError(f"the streams of {template!r}: there is no component {document['type']!r}")
    try:
        stream = validated(kind, document)
    except ManifestError as error:
        raise ManifestError(f"the streams of {template!r}: {error}") from None
    if not isinstance(stream, AnyStreams):
        raise ManifestError(f"the streams of {template!r}: found a {document['type']}, expected a stream")
    yield from stream.streams(ctx)
