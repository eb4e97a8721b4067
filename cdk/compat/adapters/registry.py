"""Builds custom components, whose Python classes were written for `airbyte_cdk`."""

from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from cdk.base.errors import ManifestError
from cdk.base.values import JsonValue
from cdk.compat.adapters import pagination as adapt_pages
from cdk.compat.adapters import records as adapt_records
from cdk.compat.adapters import slices as adapt_slices
from cdk.compat.airbyte.http import adapters as adapt_http
from cdk.compat.airbyte.partition_routers import DatetimeBasedCursor
from cdk.compat.airbyte.retrievers import SimpleRetriever
from cdk.compat.facades.facades import DecoderFacade, PartitionRouterFacade, RequestOptionsFacade
from cdk.compat.facades.instantiate import authenticator, instance, selector
from cdk.compat.facades.slices import fill, slice_arguments
from cdk.compat.loading.custom_module import custom_class
from cdk.declarative.components.custom import CustomAuthenticator, CustomComponent
from cdk.declarative.components.streams.incremental import DatetimeBasedCursor as ManifestCursor
from cdk.declarative.components.streams.partition_routers import Product
from cdk.declarative.components.streams.retrievers import RecordSelector
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.declarative.model.request_plug_points import AnyDecoder, Requester
from cdk.declarative.model.stream_plug_points import AnyPartitionRouter, Incremental, Router, SliceReader, StreamParts
from cdk.declarative.syntax.validation import validated
from cdk.rest import Authenticator, Decoder, JsonDocument
from cdk.rest.auth.token_owner import collecting_bearers, register_bearer
from cdk.rest.client import Sender
from cdk.state.slice import Slice

# The methods with which a cursor plans windows and keeps states. The kit does both itself, and its guarantees would
# not hold with others, so a class that overrides them is refused.
_OWN_METHODS = ("stream_slices", "close_slice", "get_stream_state", "set_initial_state", "observe", "should_be_synced",
         "is_greater_than_or_equal", "select_state")  # fmt: skip


def build(component: Component, ctx: BuildContext, *parts: object) -> object:
    """Build the object of a custom component, in the form of its family's plug point.

    parts: the other arguments of the family's `build`. Raises ManifestError: the class is missing, or cannot be
    instantiated.
    """
    return _BUILDERS.get(type(component).__name__, _adapted)(component, ctx, *parts)


def _adapted(component: CustomComponent, ctx: BuildContext, *parts: object) -> object:
    return _ADAPTERS[type(component).__name__](instance(component, ctx), ctx, *parts)


_ADAPTERS: Mapping[str, Callable[..., object]] = {
    "CustomBackoffStrategy": lambda custom, _: adapt_http.custom_backoff(custom),
    "CustomConfigTransformation": lambda custom, _: partial(custom.call, "transform"),
    "CustomDecoder": lambda custom, _: adapt_records.CustomDecoderAdapter(custom),
    "CustomErrorHandler": lambda custom, _: adapt_http.CustomErrorHandlerAdapter(custom),
    "CustomPartitionRouter": lambda custom, ctx: adapt_slices.CustomRouterAdapter(custom, ctx.stream, ctx.window),
    "CustomRecordFilter": lambda custom, _: adapt_records.filtering(custom),
    "CustomSchemaLoader": lambda custom, _: adapt_records.loading(custom),
    "CustomSchemaNormalization": lambda custom, _, schema: adapt_records.normalizing(custom, schema),
    "CustomTransformation": lambda custom, ctx: adapt_records.transforming(custom, ctx.config),
    "CustomValidationStrategy": lambda custom, _: adapt_records.validating(custom),
}
"""The adapter from an object to the plug point, for types whose classes take only arguments from the manifest."""


def _authenticator(component: CustomAuthenticator, ctx: BuildContext) -> Authenticator:
    with collecting_bearers() as inside:
        custom = authenticator(component, ctx)
    native = custom.get("native")
    adapted = adapt_http.CustomAuthenticatorAdapter(custom) if native is None else native
    # Only the object knows which of the authenticators in its arguments it uses: it may select one by the config.
    if native in inside or (inside and native is None):
        register_bearer(adapted)
    return adapted


def _reads(decoder: Decoder) -> Mapping[str, object]:
    """The decoder as an argument, unless it is the default of the classes."""
    return {} if isinstance(decoder, JsonDocument) else {"decoder": DecoderFacade(decoder)}


def _requester(component: CustomComponent, ctx: BuildContext) -> Requester:
    custom = instance(component, ctx)
    client: Sender | None = custom.get("kit_client")
    return adapt_pages.CustomRequesterAdapter(custom, client, ctx.where(component, "class_name"))


def _retriever(component: CustomComponent, ctx: BuildContext, parts: StreamParts) -> SliceReader:
    """Build a custom retriever, with the parts of its stream as arguments."""
    fields = component.further_fields
    reads = _decoder(fields.get("decoder"), ctx)
    router = _router(fields.get("partition_router"), ctx)
    shown = None if router is None else PartitionRouterFacade(router, ctx.window)
    asking = RequestOptionsFacade(router, parts.incremental, ctx.window)
    known: dict[str, object] = {
        "name": parts.name,
        "primary_key": _key(parts) or fields.get("primary_key"),
        "request_option_provider": asking,
        "request_options_provider": asking,
        "decoder": DecoderFacade(reads),
        "cursor": None,
    }
    if shown is not None:
        known |= {"stream_slicer": shown, "partition_router": shown}
    if isinstance(blob := fields.get("record_selector"), dict):
        chosen = validated(RecordSelector, {"type": "RecordSelector", **blob})
        # Existing retrievers filter by the cursor themselves, and must see every record.
        known["record_selector"] = selector(chosen, ctx, replace(parts, incremental=None), reads)
    custom = instance(component, ctx, **known)
    if isinstance(simple := custom.instance, SimpleRetriever):
        # A subclass with its own __init__ may not pass all arguments to the base class.
        simple.request_option_provider = simple.request_option_provider or asking
        simple.name = simple.name or parts.name
    return adapt_slices.CustomRetrieverAdapter(custom, router, parts, ctx.window)


def _key(parts: StreamParts) -> object:
    """The primary key of a stream as custom code expects it: most of it takes a single field as a string."""
    key = parts.primary_key
    if len(key) == 1 and isinstance(key[0], str):
        return key[0]
    return [part if isinstance(part, str) else list(part) for part in key] or None


def _decoder(blob: JsonValue, ctx: BuildContext) -> Decoder:
    if not isinstance(blob, dict):
        return JsonDocument()
    return validated(AnyDecoder, {"type": "JsonDecoder", **blob}).build(ctx)


def _router(blob: JsonValue, ctx: BuildContext) -> Router | None:
    if not blob:
        return None
    blobs = blob if isinstance(blob, list) else [blob]
    routers = [validated(AnyPartitionRouter, item).build(ctx) for item in blobs]
    return routers[0] if len(routers) == 1 else Product(routers)


def _incremental(component: CustomComponent, ctx: BuildContext) -> Incremental:
    """Build the manifest's cursor; a custom class may only add to its requests.

    Raises ManifestError: the class does not extend DatetimeBasedCursor, or overrides methods in `_OWN_METHODS`.
    """
    where = ctx.where(component, "class_name")
    kind = custom_class(component.class_name, ctx, where)
    own = (
        kind.__mro__[: kind.__mro__.index(DatetimeBasedCursor)]
        if issubclass(kind, DatetimeBasedCursor)
        else kind.__mro__
    )
    changed = [name for name in _OWN_METHODS if any(name in vars(base) for base in own)]
    if not issubclass(kind, DatetimeBasedCursor) or changed:
        why = f"it has its own {', '.join(changed)}" if changed else "it does not extend DatetimeBasedCursor"
        raise ManifestError(
            f"{where}: {component.class_name} is a custom cursor ({why}), but the kit manages windows and states; "
            "write it as a DatetimeBasedCursor, with a state migration if the old state has another form"
        )
    blob = {**component.further_fields, "$parameters": dict(component.parameters), "type": "DatetimeBasedCursor"}
    native = validated(ManifestCursor, blob).build(ctx)
    if not any(name.lstrip("_").startswith("get_request") for base in own for name in vars(base)):
        return native
    custom = instance(component, ctx)

    def apply(draft: RequestBuilder, slice: Slice) -> None:
        with custom.calling("get_request_params"):
            fill(draft, custom.instance, slice_arguments(slice, native.fields))

    return replace(native, apply=apply)


_BUILDERS: Mapping[str, Callable[..., object]] = {
    "CustomAuthenticator": _authenticator,
    "CustomIncrementalSync": _incremental,
    "CustomPaginationStrategy": lambda component, ctx, decoder: adapt_pages.CustomStrategyAdapter(
        instance(component, ctx, **_reads(decoder))
    ),
    "CustomRecordExtractor": lambda component, ctx, decoder: adapt_records.CustomExtractorAdapter(
        instance(component, ctx, **_reads(decoder))
    ),
    "CustomRequester": _requester,
    "CustomRetriever": _retriever,
    "CustomStateMigration": lambda component, ctx, stream: adapt_records.migrating(
        instance(component, ctx, declarative_stream=stream)
    ),
}
