"""The names that custom components may import: the module that defines each, and the modules that serve it."""

from collections.abc import Mapping
from types import ModuleType

from cdk.compat.airbyte import (
    datetimes,
    interpolation,
    models,
    partition_routers,
    paths,
    plain_types,
    records,
    retrievers,
    schemas,
    streams,
)
from cdk.compat.airbyte.http import (
    auth,
    call_rate,
    error_handlers,
    http_client,
    http_stream,
    pagination,
    requesters,
    single_use_tokens,
)
from cdk.protocol import catalog, messages, traces

_ROOTS = {
    "cdk": "airbyte_cdk",
    "declarative": "airbyte_cdk.sources.declarative",
    "dpath": "dpath",
    "http": "airbyte_cdk.sources.streams.http",
}

_MESSAGES = "cdk.models cdk.models.airbyte_protocol"
_OPTIONS = "declarative.requesters.request_options"
_HANDLERS = "declarative.requesters.error_handlers"
_BACKOFFS = f"{_HANDLERS}.backoff_strategies"
_ROUTERS = "declarative.partition_routers"
_STRATEGIES = "declarative.requesters.paginators.strategies"

_SERVED: Mapping[ModuleType, Mapping[str, str]] = {
    auth: {
        "ApiKeyAuthenticator BasicHttpAuthenticator": "declarative.auth.token",
        "BearerAuthenticator": "cdk declarative.auth.token",
        "DeclarativeAuthenticator NoAuth": "declarative.auth.declarative_authenticator",
        "DeclarativeOauth2Authenticator": "declarative.auth declarative.auth.oauth",
        "InterpolatedStringTokenProvider TokenProvider": "declarative.auth.token_provider",
        "SelectiveAuthenticator": "declarative.auth.selective_authenticator",
        "TokenAuthenticator": "http.requests_native_auth http.requests_native_auth.token",
    },
    call_rate: {
        "APIBudget HttpRequestMatcher LimiterMixin MovingWindowCallRatePolicy Rate": "cdk.sources.streams.call_rate",
        "UnlimitedCallRatePolicy": "cdk.sources.streams.call_rate",
    },
    datetimes: {
        "ab_datetime_format ab_datetime_now ab_datetime_parse ab_datetime_try_parse": "cdk.utils.datetime_helpers",
        "AirbyteDateTime": "cdk.utils.datetime_helpers",
        "DatetimeParser": "declarative.datetime.datetime_parser",
    },
    error_handlers: {
        "BackoffStrategy": f"{_HANDLERS} {_HANDLERS}.backoff_strategy "
        "http.error_handlers http.error_handlers.backoff_strategy",
        "ConstantBackoffStrategy": f"{_BACKOFFS} {_BACKOFFS}.constant_backoff_strategy",
        "DEFAULT_ERROR_MAPPING": "http.error_handlers http.error_handlers.default_error_mapping",
        "DefaultErrorHandler": f"{_HANDLERS} {_HANDLERS}.default_error_handler http.error_handlers",
        "ErrorHandler": f"{_HANDLERS}.error_handler http.error_handlers http.error_handlers.error_handler",
        "DefaultHttpResponseFilter": f"{_HANDLERS}.default_http_response_filter",
        "ErrorResolution ResponseAction": "http.error_handlers http.error_handlers.response_models",
        "SUCCESS_RESOLUTION": "http.error_handlers http.error_handlers.response_models",
        "ExponentialBackoffStrategy": f"{_BACKOFFS} {_BACKOFFS}.exponential_backoff_strategy",
        "HttpResponseFilter": f"{_HANDLERS}.http_response_filter",
        "HttpStatusErrorHandler": "http.error_handlers http.error_handlers.http_status_error_handler",
        "create_fallback_error_resolution": "http.error_handlers.response_models",
        "WaitTimeFromHeaderBackoffStrategy": f"{_BACKOFFS} {_BACKOFFS}.wait_time_from_header_backoff_strategy",
    },
    http_client: {
        "BODY_REQUEST_METHODS": "http.http",
        "HttpClient": "declarative.requesters.http_requester http http.http_client",
    },
    interpolation: {
        "InterpolatedBoolean": "declarative.interpolation declarative.interpolation.interpolated_boolean",
        "InterpolatedMapping": "declarative.interpolation declarative.interpolation.interpolated_mapping",
        "InterpolatedNestedMapping": "declarative.interpolation declarative.interpolation.interpolated_nested_mapping",
        "InterpolatedRequestInputProvider": f"{_OPTIONS}.interpolated_request_input_provider",
        "InterpolatedString": "cdk declarative.interpolation declarative.interpolation.interpolated_string",
        "JinjaInterpolation": "declarative.interpolation declarative.interpolation.jinja",
    },
    models: {
        "AirbyteTracedException": "cdk cdk.utils cdk.utils.traced_exception",
        "DefaultBackoffException RequestBodyException UserDefinedBackoffException": "http.exceptions",
        "FailureType": f"cdk cdk.utils.traced_exception {_MESSAGES} "
        "http.error_handlers http.error_handlers.response_models",
        "InMemoryMessageRepository MessageRepository": "cdk.sources.message cdk.sources.message.repository",
        "NoopMessageRepository": "cdk.sources.message cdk.sources.message.repository",
        "is_cloud_environment": "cdk.utils",
        "Status SyncMode": _MESSAGES,
    },
    http_stream: {"HttpStream": "http http.http"},
    pagination: {
        "CursorPaginationStrategy": f"{_STRATEGIES} {_STRATEGIES}.cursor_pagination_strategy",
        "OffsetIncrement": f"{_STRATEGIES} {_STRATEGIES}.offset_increment",
        "PageIncrement": f"{_STRATEGIES} {_STRATEGIES}.page_increment",
        "PaginationStrategy": f"declarative.requesters.paginators {_STRATEGIES} {_STRATEGIES}.pagination_strategy",
    },
    partition_routers: {
        "ConcurrentCursorFactory": "declarative.incremental declarative.incremental.concurrent_partition_cursor",
        "ConcurrentPerPartitionCursor": "declarative.incremental declarative.incremental.concurrent_partition_cursor",
        "Cursor": "declarative.incremental",
        "DatetimeBasedCursor": "declarative.incremental declarative.incremental.datetime_based_cursor",
        "DeclarativeCursor": "declarative.incremental declarative.incremental.declarative_cursor",
        "CartesianProductStreamSlicer": f"{_ROUTERS} "
        f"{_ROUTERS}.cartesian_product_stream_slicer declarative.stream_slicers",
        "LegacyToPerPartitionStateMigration": "declarative.migrations.legacy_to_per_partition_state_migration",
        "ListPartitionRouter": f"{_ROUTERS} {_ROUTERS}.list_partition_router",
        "ParentStreamConfig": f"{_ROUTERS} {_ROUTERS}.substream_partition_router",
        "PartitionRouter": f"{_ROUTERS} {_ROUTERS}.partition_router",
        "SinglePartitionRouter": f"{_ROUTERS} {_ROUTERS}.single_partition_router",
        "StreamSlicer": "declarative.stream_slicers declarative.stream_slicers.stream_slicer",
        "SubstreamPartitionRouter": f"cdk {_ROUTERS} {_ROUTERS}.substream_partition_router",
    },
    paths: {"get values": "dpath dpath.util"},
    plain_types: {
        "Config ConnectionDefinition FieldPointer Record StreamSlice": "declarative.types cdk.sources.types",
        "StreamState": "declarative.types cdk.sources.types",
        "EmptyString": "cdk.sources.types",
        "RequestInput": f"{_OPTIONS}.interpolated_request_options_provider",
        "StreamData": "cdk.sources.streams.core",
        "TState": "cdk cdk.sources.source",
    },
    catalog: {
        "AirbyteCatalog AirbyteStream ConfiguredAirbyteCatalog ConfiguredAirbyteStream": _MESSAGES,
        "DestinationSyncMode StreamDescriptor": _MESSAGES,
    },
    messages: {
        "AirbyteConnectionStatus AirbyteLogMessage AirbyteMessage AirbyteRecordMessage": _MESSAGES,
        "AirbyteStateMessage ConnectorSpecification Level Type": _MESSAGES,
    },
    traces: {"AirbyteTraceMessage": _MESSAGES},
    records: {
        "AddedFieldDefinition ParsedAddFieldDefinition": "declarative.transformations.add_fields",
        "AddFields": "declarative.transformations declarative.transformations.add_fields",
        "ConfigTransformation": "declarative.transformations.config_transformations.config_transformation",
        "Decoder": "cdk declarative.decoders declarative.decoders.decoder",
        "DpathExtractor": "cdk declarative.extractors declarative.extractors.dpath_extractor",
        "HttpSelector": "declarative.extractors declarative.extractors.http_selector",
        "JsonDecoder": "declarative.decoders declarative.decoders.json_decoder",
        "RecordExtractor": "declarative.extractors declarative.extractors.record_extractor",
        "RecordFilter": "declarative.extractors declarative.extractors.record_filter",
        "RecordSelector": "cdk declarative.extractors declarative.extractors.record_selector",
        "RecordTransformation": "declarative.transformations declarative.transformations.transformation",
        "StateMigration": "declarative.migrations.state_migration",
        "ValidationStrategy": "declarative.validators declarative.validators.validation_strategy",
    },
    requesters: {
        "HttpMethod": "declarative.requesters.http_requester declarative.requesters.requester",
        "HttpRequester": "cdk declarative.requesters declarative.requesters.http_requester",
        "InterpolatedRequestOptionsProvider": f"{_OPTIONS} {_OPTIONS}.interpolated_request_options_provider",
        "Requester": "declarative.requesters declarative.requesters.requester",
        "RequestOption": "declarative.requesters declarative.requesters.request_option",
        "RequestOptionsProvider": f"{_OPTIONS} {_OPTIONS}.request_options_provider",
        "RequestOptionType": "declarative.requesters.request_option",
    },
    retrievers: {
        "FULL_REFRESH_SYNC_COMPLETE_KEY": "declarative.retrievers.simple_retriever",
        "Retriever": "declarative.retrievers declarative.retrievers.retriever",
        "SimpleRetriever": "cdk declarative.retrievers declarative.retrievers.simple_retriever",
    },
    schemas: {
        "_default_file_path": "declarative.schema.json_file_schema_loader",
        "InlineSchemaLoader": "declarative.schema declarative.schema.inline_schema_loader",
        "JsonFileSchemaLoader": "declarative.schema declarative.schema.json_file_schema_loader",
        "SchemaLoader": "declarative.schema declarative.schema.schema_loader",
        "TransformConfig TypeTransformer": "cdk.sources.utils.transform",
    },
    single_use_tokens: {"DeclarativeSingleUseRefreshTokenOauth2Authenticator": "declarative.auth.oauth"},
    streams: {
        "AbstractHeaderAuthenticator": "cdk http.requests_native_auth.abstract_token",
        "AbstractStream": "cdk.sources.streams.concurrent.abstract_stream",
        "DeclarativeStream": "declarative.declarative_stream declarative.models.declarative_component_schema",
        "ReadException": "declarative.exceptions",
        "Stream": "cdk.sources.streams cdk.sources.streams.core",
        "YamlDeclarativeSource": "declarative.yaml_declarative_source",
    },
}
"""Defining module -> names -> the modules that serve them, each begins with a key of `_ROOTS`; all joined by spaces."""

HOMES: Mapping[str, ModuleType] = {
    name: home for home, served in _SERVED.items() for names in served for name in names.split()
}
"""Name -> the module that defines it."""


def _places() -> Mapping[str, tuple[str, ...]]:
    places: dict[str, tuple[str, ...]] = {}
    for served in _SERVED.values():
        for names, modules in served.items():
            for spelled in modules.split():
                root, dot, rest = spelled.partition(".")
                module = f"{_ROOTS[root]}{dot}{rest}"
                places[module] = (*places.get(module, ()), *names.split())
    return places


PLACES = _places()
"""Importable module -> the names it serves. Their parent packages can be imported as well, but serve no names."""
