"""From a component of the manifest to what custom code holds of it."""

from cdk.base.values import Json
from cdk.compat.airbyte.http.auth import NoAuth
from cdk.compat.airbyte.http.requesters import HttpRequester, RequestOption, RequestOptionType
from cdk.compat.airbyte.interpolation import InterpolatedString
from cdk.compat.airbyte.partition_routers import ParentStreamConfig
from cdk.compat.airbyte.streams import SeenStream
from cdk.compat.facades.facades import (
    AuthenticatorFacade,
    BackoffFacade,
    DecoderFacade,
    ErrorHandlerFacade,
    ExtractorFacade,
    FilterFacade,
    PaginationStrategyFacade,
    PaginatorFacade,
    PartitionRouterFacade,
    PartsFacade,
    RecordSelectorFacade,
    SchemaLoaderFacade,
    TransformationFacade,
)
from cdk.declarative.components.requests import request_options as options
from cdk.declarative.components.requests import requesters
from cdk.declarative.components.streams import partition_routers as routers
from cdk.declarative.components.streams import retrievers
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.custom_code import CustomComponent
from cdk.declarative.model.plug_points import (
    AnyAuthenticator,
    AnyBackoffStrategy,
    AnyDecoder,
    AnyErrorHandler,
    AnyExtractor,
    AnyPaginationStrategy,
    AnyPaginator,
    AnyPartitionRouter,
    AnyRecordFilter,
    AnySchemaLoader,
    AnyStream,
    AnyTransformation,
    StreamParts,
)
from cdk.rest import Decoder, JsonDecoder


def show(component: Component, ctx: BuildContext) -> Json:  # noqa: C901, PLR0911, PLR0912 - one line a kind
    """What custom code is given for a component: an object with the methods it expects, else the component itself."""
    from cdk.compat.facades.instances import instance  # noqa: PLC0415 - it shows the fields of what it makes

    match component:
        case CustomComponent():
            return instance(component, ctx)
        case routers.ParentStreamConfig():
            return _parent(component, ctx)
        case options.RequestOption():
            return _option(component)
        case AnyAuthenticator():
            signer = component.build(ctx)
            return NoAuth(parameters={}) if signer is None else AuthenticatorFacade(signer, ctx.runtime.transport)
        case AnyErrorHandler():
            return ErrorHandlerFacade(component.build(ctx))
        case AnyBackoffStrategy():
            return BackoffFacade(component.build(ctx))
        case AnyDecoder():
            return DecoderFacade(component.build(ctx))
        case AnyExtractor():
            return ExtractorFacade(component.build(ctx, JsonDecoder()))
        case requesters.HttpRequester():
            return _requester(component, ctx)
        case retrievers.RecordSelector():
            return selector(component, ctx, StreamParts(name=ctx.stream), JsonDecoder())
        case AnyPaginator():
            return PaginatorFacade(component.build(ctx, JsonDecoder()))
        case AnyPaginationStrategy():
            return PaginationStrategyFacade(component.build(ctx, JsonDecoder()))
        case AnyPartitionRouter():
            return PartitionRouterFacade(component.build(ctx), ctx.window)
        case AnyStream():
            return SeenStream(component.build(ctx, as_parent=True))
        case AnySchemaLoader():
            return SchemaLoaderFacade(component.build(ctx))
        case AnyTransformation():
            return TransformationFacade(component.build(ctx), ctx.window)
        case AnyRecordFilter():
            return FilterFacade(component.build(ctx), ctx.window)
        case _:
            return component


def selector(
    component: retrievers.RecordSelector, ctx: BuildContext, parts: StreamParts, decoder: Decoder
) -> RecordSelectorFacade:
    """A record selector as custom code uses it. parts: of the stream it works for."""
    plain = StreamParts(parts.name, parts.incremental, (), parts.schema, parts.cached)
    return RecordSelectorFacade(
        component.extractor.build(ctx, decoder),
        component.select(ctx, parts),
        component.select(ctx, plain),
        [TransformationFacade(transform, ctx.window) for transform in parts.transforms],
        ctx,
    )


def _option(component: options.RequestOption) -> RequestOption:
    return RequestOption(
        inject_into=RequestOptionType(component.inject_into),
        parameters=component.parameters,
        field_name=component.field_name,
        field_path=list(component.field_path) if component.field_path else None,
    )


def _parent(component: routers.ParentStreamConfig, ctx: BuildContext) -> ParentStreamConfig:
    return ParentStreamConfig(
        stream=SeenStream(component.stream.build(ctx, as_parent=True)),
        parent_key=component.parent_key,
        partition_field=component.partition_field,
        config=ctx.config,
        parameters=component.parameters,
        extra_fields=component.extra_fields,
        request_option=None if component.request_option is None else _option(component.request_option),
        incremental_dependency=component.incremental_dependency,
        lazy_read_pointer=component.lazy_read_pointer,
    )


def _requester(component: requesters.HttpRequester, ctx: BuildContext) -> HttpRequester:
    native = component.build(ctx)
    parameters = component.parameters
    requester = HttpRequester(
        name=ctx.stream,
        config=ctx.config,
        parameters=parameters,
        url=component.url and InterpolatedString.create(component.url, parameters=parameters),
        url_base=component.url_base and InterpolatedString.create(component.url_base, parameters=parameters),
        path=component.path and InterpolatedString.create(component.path, parameters=parameters),
        http_method=component.http_method,
        authenticator=None if component.authenticator is None else show(component.authenticator, ctx),
        request_options_provider=PartsFacade(native, ctx.window),
    )
    requester.use(native.client)
    return requester
