"""The components of the manifest language, one family a file, and which file has which.

A file is imported when a manifest names a component of it: to import all of them took a third of the time of `spec`.
"""

from cdk.declarative.model.component import Component

TYPES = {
    "auth.jwt": "JwtAuthenticator",
    "auth.legacy_session_token": "LegacySessionTokenAuthenticator",
    "auth.oauth": "OAuthAuthenticator",
    "auth.oauth_spec": "AuthFlow OAuthConfigSpecification",
    "auth.selective": "SelectiveAuthenticator",
    "auth.session_token": "ApiKey Bearer SessionTokenAuthenticator",
    "auth.simple": "ApiKeyAuthenticator BasicHttpAuthenticator BearerAuthenticator NoAuth",
    "auth.token_pool": "QuotaStatusSource RateLimitedMultipleTokenAuthenticator TokenQuota",
    "custom": (
        "CustomAuthenticator CustomBackoffStrategy CustomConfigTransformation CustomDecoder CustomErrorHandler "
        "CustomIncrementalSync CustomPaginationStrategy CustomPartitionRouter CustomRecordExtractor "
        "CustomRecordFilter CustomRequester CustomRetriever CustomSchemaLoader CustomSchemaNormalization "
        "CustomStateMigration CustomTransformation CustomValidationStrategy"
    ),
    "records.config_normalization": (
        "ConfigAddFields ConfigMigration ConfigNormalizationRules ConfigRemapField ConfigRemoveFields DpathValidator "
        "PredicateValidator ValidateAdheresToSchema"
    ),
    "records.decoders": (
        "CsvDecoder GzipDecoder IterableDecoder JsonDecoder JsonItemsDecoder JsonlDecoder XmlDecoder ZipfileDecoder"
    ),
    "records.extractors": "CombinedExtractor DpathExtractor ParentFieldPath RecordExpander ResponseToFileExtractor",
    "records.file_uploader": "FileUploader",
    "records.filters": "RecordFilter",
    "records.schema_loaders": (
        "ComplexFieldType DynamicSchemaLoader InlineSchemaLoader JsonFileSchemaLoader SchemaTypeIdentifier TypesMap"
    ),
    "records.transformations": "AddFields AddedFieldDefinition RemoveFields",
    "records.transformations_flatten": "DpathFlattenFields FlattenFields KeyTransformation",
    "records.transformations_keys": "KeysReplace KeysToLower KeysToSnakeCase",
    "requests.api_budget": (
        "FixedWindowCallRatePolicy HTTPAPIBudget HttpRequestRegexMatcher MovingWindowCallRatePolicy Rate "
        "UnlimitedCallRatePolicy"
    ),
    "requests.backoff": (
        "ConstantBackoffStrategy ExponentialBackoffStrategy WaitTimeFromHeader WaitTimeFromResponse "
        "WaitUntilTimeFromHeader"
    ),
    "requests.error_handlers": "CompositeErrorHandler DefaultErrorHandler HttpResponseFilter",
    "requests.pagination": "CursorPagination DefaultPaginator NoPagination OffsetIncrement PageIncrement",
    "requests.query_properties": (
        "GroupByKeyMergeStrategy JsonSchemaPropertySelector PropertiesFromEndpoint PropertyChunking QueryProperties"
    ),
    "requests.request_body": "RequestBodyGraphQL RequestBodyJsonObject RequestBodyPlainText RequestBodyUrlEncodedForm",
    "requests.request_options": "RequestOption RequestPath",
    "requests.requesters": "HttpRequester",
    "streams.async_retriever": "AsyncJobStatusMap AsyncRetriever",
    "streams.dynamic_streams": (
        "ComponentMappingDefinition ConfigComponentsResolver DynamicDeclarativeStream HttpComponentsResolver "
        "ParametrizedComponentsResolver StreamConfig StreamParametersDefinition"
    ),
    "streams.incremental": "DatetimeBasedCursor IncrementingCountCursor MinMaxDatetime",
    "streams.partition_routers": (
        "GroupingPartitionRouter ListPartitionRouter ParentStreamConfig SubstreamPartitionRouter UnionPartitionRouter"
    ),
    "streams.recoveries": "PageSizeReduction PaginationReset PaginationResetLimits RequestWindowSplitting",
    "streams.retrievers": "RecordSelector SimpleRetriever",
    "streams.source": (
        "BlockSimultaneousSyncsAction CheckDynamicStream CheckStream ConcurrencyLevel DeclarativeSource "
        "DynamicStreamCheckConfig Spec StreamGroup"
    ),
    "streams.state_migrations": "LegacyToPerPartitionStateMigration",
    "streams.stream_choices": "ConditionalStreams StateDelegatingStream",
    "streams.streams": "DeclarativeStream",
}


def register() -> None:
    """Make every component known by its type."""
    for module, types in TYPES.items():
        Component.registry.expect(f"{__name__}.{module}", types.split())
