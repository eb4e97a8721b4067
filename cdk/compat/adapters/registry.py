"""AirbyteCode: builds components that are Python classes written for `airbyte_cdk`, one function a family."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject, JsonSchema, JsonValue
from cdk.compat.adapters import pagination as adapt_pages
from cdk.compat.adapters import records as adapt_records
from cdk.compat.adapters import slices as adapt_slices
from cdk.compat.airbyte.cursors import DatetimeBasedCursor
from cdk.compat.airbyte.http import adapters as adapt_http
from cdk.compat.airbyte.retrievers import SimpleRetriever
from cdk.compat.facades.facades import DecoderFacade, PartitionRouterFacade, RequestOptionsFacade
from cdk.compat.facades.instantiate import instance, selector
from cdk.compat.facades.slices import fill, slice_arguments
from cdk.compat.loading.custom_module import custom_class
from cdk.declarative.components.streams.incremental import DatetimeBasedCursor as OurCursor
from cdk.declarative.components.streams.partition_routers import Product
from cdk.declarative.components.streams.retrievers import RecordSelector
from cdk.declarative.model.component import Component, Default
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.custom_code import CustomComponent
from cdk.declarative.model.plug_points import (
    AnyDecoder,
    AnyPartitionRouter,
    Incremental,
    Normalize,
    PageStrategy,
    Requester,
    Router,
    Select,
    SliceReader,
    StreamParts,
    Transform,
)
from cdk.declarative.model.request_builder import RequestBuilder
from cdk.rest import Authenticator, Decoder, HttpClient, JsonDocument
from cdk.rest.auth.token_owner import TokenOwner, collecting, report
from cdk.rest.errors.http_error_handler import OutcomeHandler
from cdk.rest.errors.wait_strategies import WaitStrategy
from cdk.rest.records.extractor import Extractor
from cdk.state.slice import Slice

# A cursor plans windows and keeps states with these; one that changes them would lose our promises.
_OWN_METHODS = ("stream_slices", "close_slice", "get_stream_state", "set_initial_state", "observe", "should_be_synced",
         "is_greater_than_or_equal", "select_state")  # fmt: skip


def authenticator(component: CustomComponent, ctx: BuildContext) -> Authenticator:
    """See AnyAuthenticator."""
    with collecting() as inside:
        custom = instance(component, ctx)
    signer = adapt_http.signer(custom)
    # Which of the parts it was given are used, only the object knows: it may choose one of them by the config.
    if isinstance(signer, TokenOwner) or (inside and isinstance(signer, adapt_http.CustomSigner)):
        report(signer)
    return signer


def error_handler(component: CustomComponent, ctx: BuildContext) -> OutcomeHandler:
    """See AnyErrorHandler."""
    return adapt_http.CustomJudge(instance(component, ctx))


def backoff(component: CustomComponent, ctx: BuildContext) -> WaitStrategy:
    """See AnyBackoffStrategy."""
    return adapt_http.custom_backoff(instance(component, ctx))


def decoder(component: CustomComponent, ctx: BuildContext) -> Decoder:
    """See AnyDecoder."""
    return adapt_records.CustomDecoderAdapter(instance(component, ctx))


def extractor(component: CustomComponent, ctx: BuildContext, decoder: Decoder) -> Extractor:
    """See AnyExtractor."""
    known = {} if isinstance(decoder, JsonDocument) else {"decoder": DecoderFacade(decoder)}
    return adapt_records.CustomExtractorAdapter(instance(component, ctx, **known))


def record_filter(component: CustomComponent, ctx: BuildContext) -> Select:
    """See AnyRecordFilter."""
    return adapt_records.filtering(instance(component, ctx))


def transformation(component: CustomComponent, ctx: BuildContext) -> Transform:
    """See AnyTransformation."""
    return adapt_records.transforming(instance(component, ctx), ctx.config)


def normalization(component: CustomComponent, ctx: BuildContext, schema: JsonSchema) -> Normalize:
    """See AnySchemaNormalization."""
    return adapt_records.normalizing(instance(component, ctx), schema)


def schema_loader(component: CustomComponent, ctx: BuildContext) -> Callable[[], JsonSchema]:
    """See AnySchemaLoader."""
    return adapt_records.loading(instance(component, ctx))


def state_migration(
    component: CustomComponent, ctx: BuildContext, stream: Component
) -> Callable[[JsonValue], JsonValue]:
    """See AnyStateMigration."""
    return adapt_records.migrating(instance(component, ctx, declarative_stream=stream))


def config_transformation(component: CustomComponent, ctx: BuildContext) -> Callable[[JsonObject], None]:
    """See AnyConfigTransformation."""
    return adapt_records.changing(instance(component, ctx))


def validation(component: CustomComponent, ctx: BuildContext) -> Callable[[JsonValue], None]:
    """See AnyValidationStrategy."""
    return adapt_records.validating(instance(component, ctx))


def pagination_strategy(component: CustomComponent, ctx: BuildContext, decoder: Decoder) -> PageStrategy:
    """See AnyPaginationStrategy."""
    known = {} if isinstance(decoder, JsonDocument) else {"decoder": DecoderFacade(decoder)}
    return adapt_pages.CustomStrategyAdapter(instance(component, ctx, **known))


def partition_router(component: CustomComponent, ctx: BuildContext) -> Router:
    """See AnyPartitionRouter."""
    return adapt_slices.CustomRouterAdapter(instance(component, ctx), ctx.window)


def requester(component: CustomComponent, ctx: BuildContext) -> Requester:
    """See AnyRequester."""
    custom = instance(component, ctx)
    client: HttpClient | None = custom.get("kit_client")
    return adapt_pages.CustomRequesterAdapter(custom, client, ctx.where(component, "class_name"))


def retriever(component: CustomComponent, ctx: BuildContext, parts: StreamParts) -> SliceReader:
    """See AnyRetriever."""
    fields = component.model_extra or {}
    reads = _decoder(fields.get("decoder"), ctx)
    router = _router(fields.get("partition_router"), ctx)
    shown = None if router is None else PartitionRouterFacade(router, ctx.window)
    asking = RequestOptionsFacade(router, parts.incremental, ctx.window)
    known: dict[str, object] = {
        "name": parts.name,
        "request_option_provider": asking,
        "request_options_provider": asking,
        "decoder": DecoderFacade(reads),
        "cursor": None,
    }
    if shown is not None:
        known |= {"stream_slicer": shown, "partition_router": shown}
    if isinstance(blob := fields.get("record_selector"), dict):
        chosen = RecordSelector.model_validate({"type": "RecordSelector", **blob})
        # Existing retrievers filter by the cursor themselves, after they have looked at every record.
        unfiltered = replace(parts, incremental=None)
        known["record_selector"] = selector(chosen, ctx, unfiltered, reads)
    custom = instance(component, ctx, **known)
    if isinstance(simple := custom.instance, SimpleRetriever):
        # A subclass with an __init__ of its own may pass on less than it was given.
        simple.request_option_provider = simple.request_option_provider or asking
        simple.name = simple.name or parts.name
    return adapt_slices.CustomRetrieverAdapter(custom, router, parts, ctx.window)


def _decoder(blob: JsonValue, ctx: BuildContext) -> Decoder:
    if not isinstance(blob, dict):
        return JsonDocument()
    return AnyDecoder.pick({"type": "JsonDecoder", **blob}).build(ctx)


def _router(blob: JsonValue, ctx: BuildContext) -> Router | None:
    if not blob:
        return None
    blobs = blob if isinstance(blob, list) else [blob]
    default = Default("", "CustomPartitionRouter")
    routers = [AnyPartitionRouter.pick(default.fill(item)).build(ctx) for item in blobs]
    return routers[0] if len(routers) == 1 else Product(routers)


def incremental(component: CustomComponent, ctx: BuildContext) -> Incremental:
    """See AnyIncrementalSync.

    Raises ManifestError: the class plans windows or keeps states itself.
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
            f"{where}: {component.class_name} is a cursor of its own ({why}), and windows and states are kept here; "
            "write it as a DatetimeBasedCursor, with a state migration where the old state has another form"
        )
    blob = {**(component.model_extra or {}), "$parameters": dict(component.parameters), "type": "DatetimeBasedCursor"}
    native = OurCursor.model_validate(blob).build(ctx)
    if not any(name.startswith("get_request") for base in own for name in vars(base)):
        return native
    custom = instance(component, ctx)

    def apply(draft: RequestBuilder, slice: Slice) -> None:
        with custom.at_work("get_request_params"):
            fill(draft, custom.instance, slice_arguments(slice, native.fields))

    return Incremental(
        native.cursor, apply, native.fields, native.shared, native.client_side, native.data_feed, native.catalog_cursor
    )


_BUILDERS: Mapping[str, Callable[..., object]] = {
    "CustomAuthenticator": authenticator,
    "CustomBackoffStrategy": backoff,
    "CustomConfigTransformation": config_transformation,
    "CustomDecoder": decoder,
    "CustomErrorHandler": error_handler,
    "CustomIncrementalSync": incremental,
    "CustomPaginationStrategy": pagination_strategy,
    "CustomPartitionRouter": partition_router,
    "CustomRecordExtractor": extractor,
    "CustomRecordFilter": record_filter,
    "CustomRequester": requester,
    "CustomRetriever": retriever,
    "CustomSchemaLoader": schema_loader,
    "CustomSchemaNormalization": normalization,
    "CustomStateMigration": state_migration,
    "CustomTransformation": transformation,
    "CustomValidationStrategy": validation,
}


def build(component: Component, ctx: BuildContext, *parts: object) -> object:
    """See CustomCode."""
    return _BUILDERS[type(component).__name__](component, ctx, *parts)
