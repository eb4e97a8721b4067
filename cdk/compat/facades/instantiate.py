"""Instantiates custom classes, and converts the components in their fields to the objects that they expect."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from cdk.base.errors import CdkError, ManifestError
from cdk.base.values import JsonObject, JsonValue
from cdk.base.wording import did_you_mean
from cdk.compat.airbyte.custom_object import CustomObject, running
from cdk.compat.airbyte.http.adapters import CustomAuthenticatorAdapter, authenticator_of, error_handler_of
from cdk.compat.airbyte.http.auth import DeclarativeAuthenticator, NoAuth
from cdk.compat.airbyte.http.custom_tokens import CustomTokens
from cdk.compat.airbyte.http.error_handlers import DefaultErrorHandler
from cdk.compat.airbyte.http.requesters import HttpRequester, RequestOption, RequestOptionType
from cdk.compat.airbyte.interpolation import InterpolatedString
from cdk.compat.airbyte.partition_routers import ParentStreamConfig
from cdk.compat.airbyte.streams import StreamFacade
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
    RecordSelectorFacade,
    RequesterFacade,
    ResponseFilterFacade,
    SchemaLoaderFacade,
    TransformationFacade,
)
from cdk.compat.loading.custom_module import custom_class
from cdk.declarative.components.auth.sharing import definition, secret_recorder
from cdk.declarative.components.custom import CustomAuthenticator, CustomComponent
from cdk.declarative.components.requests import error_handlers, requesters
from cdk.declarative.components.requests import request_options as options
from cdk.declarative.components.streams import partition_routers as routers
from cdk.declarative.components.streams import retrievers
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_plug_points import (
    AnyAuthenticator,
    AnyBackoffStrategy,
    AnyDecoder,
    AnyErrorHandler,
    AnyExtractor,
    AnyPaginationStrategy,
    AnyPaginator,
    AnyRecordFilter,
    AnyRequester,
    AnyTransformation,
)
from cdk.declarative.model.stream_plug_points import AnyPartitionRouter, AnySchemaLoader, AnyStream, StreamParts
from cdk.declarative.syntax.validation import validated
from cdk.rest import Decoder, JsonDocument
from cdk.rest.auth.token_owner import register_bearer

_LISTS = ("backoff_strategies", "response_filters")

# The type of a component without a `type`, by the field that contains it: without and with a `class_name`.
_IMPLIED: Mapping[str, tuple[str, str]] = {
    "authenticator": ("", "CustomAuthenticator"),
    "decoder": ("JsonDecoder", "CustomDecoder"),
    "error_handler": ("DefaultErrorHandler", "CustomErrorHandler"),
    "extractor": ("DpathExtractor", "CustomRecordExtractor"),
    "pagination_strategy": ("", "CustomPaginationStrategy"),
    "paginator": ("DefaultPaginator", ""),
    "parent_stream_configs": ("ParentStreamConfig", ""),
    "partition_router": ("", "CustomPartitionRouter"),
    "record_filter": ("RecordFilter", "CustomRecordFilter"),
    "record_selector": ("RecordSelector", ""),
    "request_option": ("RequestOption", ""),
    "requester": ("HttpRequester", "CustomRequester"),
    "schema_loader": ("", "CustomSchemaLoader"),
}


def instance(component: CustomComponent, ctx: BuildContext, **known: object) -> CustomObject:
    """Instantiate the class that a custom component names.

    known: arguments that do not come from the manifest. Raises ManifestError: an argument is missing, or the
    constructor fails.
    """
    return _instantiated(component, ctx, known)[0]


def authenticator(component: CustomAuthenticator, ctx: BuildContext) -> CustomObject:
    """As `instance`; if the object has `get_access_token`, CustomTokens obtains and shares its token."""
    custom, arguments = _instantiated(component, ctx, {})
    # Authenticators with the same definition share their tokens; those that take the stream's name, if it is equal too.
    name = arguments.get("name")
    own = custom.get("get_access_token")
    shared = isinstance(getattr(own, "__self__", None), CustomTokens)
    if callable(own) and hasattr(custom.instance, "__dict__") and not shared:
        login = ["custom", name if isinstance(name, str) else None, definition(component, ctx)]
        CustomTokens(custom, login, secret_recorder(ctx))
        register_bearer(CustomAuthenticatorAdapter(custom))
    return custom


def _instantiated(
    component: CustomComponent, ctx: BuildContext, known: Mapping[str, object]
) -> tuple[CustomObject, Mapping[str, object]]:
    """Return the object, and the arguments of its constructor."""
    where = ctx.where(component, "class_name")
    kind = custom_class(component.class_name, ctx, where)
    fields = dict(component.further_fields)
    names, required = _accepted(kind)
    offered: dict[str, object] = {
        "config": ctx.config,
        "parameters": dict(component.parameters),
        "options": dict(component.parameters),
        "name": component.parameters.get("name") or ctx.stream,
    }
    arguments = {name: value for name, value in {**offered, **known}.items() if name in names}
    for name, value in fields.items():
        if name in names and name not in known and name not in ("config", "parameters", "options"):
            arguments[name] = _value(name, value, ctx)
    if missing := sorted(required - arguments.keys()):
        why = f"{where}: {component.class_name} needs {', '.join(missing)}, which the manifest does not set"
        raise ManifestError(why)
    try:
        with running(ctx.runtime):
            custom = CustomObject(kind(**arguments), ctx.runtime)
    except CdkError:
        raise
    except Exception as error:
        why = f"{where}: {component.class_name} cannot be instantiated: {type(error).__name__}: {error}"
        raise ManifestError(why) from error
    with running(ctx.runtime):
        _attach_manifest_component(
            custom.instance, {**fields, "$parameters": dict(component.parameters)}, arguments, ctx
        )
    return custom, arguments


def _attach_manifest_component(
    custom: Any,  # noqa: ANN401
    blob: JsonObject,
    arguments: Mapping[str, object],
    ctx: BuildContext,
) -> None:
    """Connect an object whose class extends a manifest component to the kit's object for that component.

    arguments: those of its constructor.
    """
    if isinstance(custom, DefaultErrorHandler) and "DefaultErrorHandler" in Component.registry:
        handler = validated(AnyErrorHandler, {**blob, "type": "DefaultErrorHandler"})
        object.__setattr__(custom, "_manifest_handler", handler.build(ctx))
    elif getattr(custom, "sends", None) is not None:
        # Only the settings for sending matter here: the object's own methods describe the request.
        sending = {name: blob[name] for name in _SENDING if name in blob}
        requester = validated(AnyRequester, {**sending, "type": "HttpRequester", "url": "https://localhost/"})
        client = requester.build(ctx).client
        # The class may have replaced its authenticator or its error handler.
        if (own := custom.get_authenticator()) is not arguments.get("authenticator") and not isinstance(own, NoAuth):
            client.authenticator = authenticator_of(CustomObject(own, ctx.runtime))
        if custom.error_handler is not arguments.get("error_handler"):
            client.error_handler = error_handler_of(CustomObject(custom.error_handler, ctx.runtime))
        custom.use(client)


_SENDING = (
    "authenticator", "error_handler", "use_cache", "connect_timeout_in_seconds", "read_timeout_in_seconds",
    "$parameters",
)  # fmt: skip


def _value(name: str, value: JsonValue, ctx: BuildContext) -> object:  # noqa: PLR0911 - a return for each form
    """Convert a field's value: build the components in it, and leave everything else as the manifest has it.

    Raises ManifestError: a field that takes components has an unknown type.
    """
    if isinstance(value, list):
        return [_value(name, item, ctx) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"type": str() as kind} if kind in Component.registry:
            return facade_of(_component(value, ctx), ctx)
        case {"type": str() as kind} if name in _IMPLIED or name in _LISTS:
            where = f"{ctx.stream}: {name}" if ctx.stream else name
            raise ManifestError(f"{where}: unknown type {kind!r}{did_you_mean(kind, Component.registry)}")
        case {"type": _}:
            return value
        case _ if name in _IMPLIED:
            kind = _IMPLIED[name]["class_name" in value]
            return facade_of(_component({"type": kind, **value}, ctx), ctx) if kind else value
        case _ if value and all(isinstance(item, dict) and item.get("type") in Component.registry
                                     for item in value.values()):  # fmt: skip
            return {key: _value("", item, ctx) for key, item in value.items()}
        case _:
            return value


def _component(blob: Mapping[str, JsonValue], ctx: BuildContext) -> Component:
    kind = Component.registry[str(blob["type"])]
    try:
        return validated(kind, blob)
    except ManifestError as error:
        raise ManifestError(f"{ctx.stream or 'manifest'}: {blob['type']}.{error}") from None


def _accepted(kind: type) -> tuple[set[str], set[str]]:
    """Return the names of a constructor's parameters, and those of the required ones."""
    parameters = inspect.signature(kind).parameters.values()
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    required = {p.name for p in parameters if p.name in names and p.default is p.empty}
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        # `**kwargs` are passed to a base class, and are among the fields that it declares.
        hints = {name for base in kind.__mro__ for name in inspect.get_annotations(base)}
        names |= {name for name in hints if not name.startswith("_")}
    return names, required


def facade_of(component: Component, ctx: BuildContext) -> Any:  # noqa: ANN401 - the type of a field of a custom class
    """Return what custom code gets for a component: a facade with the methods it expects, else the component itself."""
    facade = next((_FACADES[kind] for kind in type(component).__mro__ if kind in _FACADES), None)
    return component if facade is None else facade(component, ctx)


def selector(
    component: retrievers.RecordSelector, ctx: BuildContext, parts: StreamParts, decoder: Decoder
) -> RecordSelectorFacade:
    """Build a record selector in the form that custom code uses. parts: those of its stream."""
    plain = StreamParts(parts.name, parts.incremental, (), parts.schema, parts.cached)
    return RecordSelectorFacade(
        component.extractor.build(ctx, decoder),
        component.select(ctx, parts),
        component.select(ctx, plain),
        parts.transforms,
        ctx,
    )


def _authenticator(component: AnyAuthenticator, ctx: BuildContext) -> DeclarativeAuthenticator:
    native = component.build(ctx)
    return NoAuth(parameters={}) if native is None else AuthenticatorFacade(native, ctx.runtime.transport)


def _option(component: options.RequestOption) -> RequestOption:
    return RequestOption(
        inject_into=RequestOptionType(component.inject_into),
        parameters=component.parameters,
        field_name=component.field_name,
        field_path=list(component.field_path) if component.field_path else None,
    )


def _parent(component: routers.ParentStreamConfig, ctx: BuildContext) -> ParentStreamConfig:
    return ParentStreamConfig(
        stream=StreamFacade(component.stream.build(ctx, as_parent=True)),
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
        authenticator=None if component.authenticator is None else facade_of(component.authenticator, ctx),
        request_options_provider=RequesterFacade(native, ctx.window),
    )
    requester.use(native.client)
    return requester


_FACADES: Mapping[type, Callable[[Any, BuildContext], object]] = {
    CustomAuthenticator: lambda component, ctx: authenticator(component, ctx).instance,
    CustomComponent: lambda component, ctx: instance(component, ctx).instance,
    routers.ParentStreamConfig: _parent,
    options.RequestOption: lambda component, _: _option(component),
    requesters.HttpRequester: _requester,
    error_handlers.HttpResponseFilter: lambda component, ctx: ResponseFilterFacade(component.build(ctx)),
    retrievers.RecordSelector: lambda component, ctx: selector(
        component, ctx, StreamParts(name=ctx.stream), JsonDocument()
    ),
    AnyAuthenticator: _authenticator,
    AnyErrorHandler: lambda component, ctx: ErrorHandlerFacade(component.build(ctx)),
    AnyBackoffStrategy: lambda component, ctx: BackoffFacade(component.build(ctx)),
    AnyDecoder: lambda component, ctx: DecoderFacade(component.build(ctx)),
    AnyExtractor: lambda component, ctx: ExtractorFacade(component.build(ctx, JsonDocument())),
    AnyPaginator: lambda component, ctx: PaginatorFacade(component.build(ctx, JsonDocument())),
    AnyPaginationStrategy: lambda component, ctx: PaginationStrategyFacade(component.build(ctx, JsonDocument())),
    AnyPartitionRouter: lambda component, ctx: PartitionRouterFacade(component.build(ctx), ctx.window),
    AnyStream: lambda component, ctx: StreamFacade(component.build(ctx, as_parent=True)),
    AnySchemaLoader: lambda component, ctx: SchemaLoaderFacade(component.build(ctx)),
    AnyTransformation: lambda component, ctx: TransformationFacade(component.build(ctx), ctx.window),
    AnyRecordFilter: lambda component, ctx: FilterFacade(component.build(ctx), ctx.window),
}
"""The function that makes the object for custom code, by the type or the family of the component."""
