"""A dozen manifests that use many components each: what the campaign breaks."""

from typing import Any

from cdk.base.values import Json

SECRET = "s3cr3t-9f8e7d6c"

CONFIG: dict[str, Json] = {
    "api_key": SECRET,
    "start": "2024-01-01T00:00:00Z",
    "regions": ["eu", "us"],
    "workers": 2,
    "nested": {"user": "me", "size": 2},
}

SPEC: dict[str, Json] = {
    "type": "Spec",
    "connection_specification": {
        "type": "object",
        "properties": {"api_key": {"type": "string", "airbyte_secret": True}, "start": {"type": "string"}},
    },
}

CURSOR: dict[str, Json] = {
    "type": "DatetimeBasedCursor",
    "cursor_field": "updated_at",
    "start_datetime": {"type": "MinMaxDatetime", "datetime": "{{ config['start'] }}"},
    "end_datetime": "{{ now_utc().strftime('%Y-%m-%dT%H:%M:%SZ') }}",
    "datetime_format": "%Y-%m-%dT%H:%M:%SZ",
    "cursor_datetime_formats": ["%Y-%m-%dT%H:%M:%SZ", "%s"],
    "step": "P3D",
    "cursor_granularity": "PT1S",
    "lookback_window": "P1D",
    "start_time_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "since"},
}

OAUTH: dict[str, Json] = {
    "type": "OAuthAuthenticator",
    "token_refresh_endpoint": "https://api.test/token",
    "client_id": "{{ config['nested']['user'] }}",
    "client_secret": "{{ config['api_key'] }}",
    "grant_type": "client_credentials",
}


def stream(name: str = "users", **parts: Json) -> dict[str, Json]:
    """A stream that is read page by page; parts: fields of its retriever, and of itself."""
    requester = {
        "type": "HttpRequester",
        "url_base": "https://api.test/",
        "path": f"/{name}",
        "authenticator": {"type": "BearerAuthenticator", "api_token": "{{ config['api_key'] }}"},
        **parts.pop("requester", {}),
    }
    selector = {
        "type": "RecordSelector",
        "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
        **parts.pop("selector", {}),
    }
    retriever = {"type": "SimpleRetriever", "requester": requester, "record_selector": selector}
    for key in ("paginator", "partition_router", "decoder"):
        if key in parts:
            retriever[key] = parts.pop(key)
    return {"type": "DeclarativeStream", "name": name, "primary_key": "id", "retriever": retriever, **parts}


def manifest(*streams: Json, **parts: Json) -> dict[str, Json]:
    names = [made.get("name", "") for made in streams]
    check = {"type": "CheckStream", "stream_names": names[:1]}
    return {
        "version": "6.0.0",
        "type": "DeclarativeSource",
        "check": check,
        "spec": SPEC,
        "streams": [*streams],
        **parts,
    }


PAGED: dict[str, Json] = {
    "type": "DefaultPaginator",
    "page_size_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "limit"},
    "page_token_option": {"type": "RequestOption", "inject_into": "request_parameter", "field_name": "page"},
    "pagination_strategy": {"type": "PageIncrement", "page_size": 2, "start_from_page": 1},
}
BY_TOKEN: dict[str, Json] = {
    "type": "DefaultPaginator",
    "page_token_option": {"type": "RequestPath"},
    "pagination_strategy": {
        "type": "CursorPagination",
        "cursor_value": "{{ response.get('next', {}).get('url') or headers['link']['next']['url'] }}",
        "stop_condition": "{{ not response.get('next') or last_record['id'] > 50 }}",
    },
}
BY_OFFSET: dict[str, Json] = {
    **PAGED,
    "pagination_strategy": {"type": "OffsetIncrement", "page_size": "{{ config['nested']['size'] }}"},
}


def option(name: str, into: str = "request_parameter") -> dict[str, Json]:
    return {"type": "RequestOption", "inject_into": into, "field_name": name}


def _all() -> dict[str, dict[str, Json]]:
    users = stream("users", paginator=PAGED)
    made: dict[str, Any] = {
        "pages": manifest(users, stream("orders", paginator=BY_TOKEN), stream("rows", paginator=BY_OFFSET)),
        "incremental": manifest(stream("events", incremental_sync=CURSOR, paginator=BY_OFFSET)),
        "counting": manifest(
            stream(
                "counts", incremental_sync={"type": "IncrementingCountCursor", "cursor_field": "id", "start_value": "0"}
            )
        ),
        "lists": manifest(
            stream(
                "regions",
                partition_router=[
                    {
                        "type": "ListPartitionRouter",
                        "values": "{{ config['regions'] }}",
                        "cursor_field": "region",
                        "request_option": option("region"),
                    },
                    {"type": "ListPartitionRouter", "values": ["a", "b"], "cursor_field": "kind"},
                ],
                incremental_sync={**CURSOR, "step": "P30D"},
                requester={"path": "/{{ stream_partition.region }}/{{ stream_slice['kind'] }}"},
            )
        ),
        "children": manifest(
            users,
            stream(
                "posts",
                partition_router={
                    "type": "SubstreamPartitionRouter",
                    "parent_stream_configs": [
                        {
                            "type": "ParentStreamConfig",
                            "stream": stream("users", incremental_sync=CURSOR),
                            "parent_key": "id",
                            "partition_field": "user",
                            "incremental_dependency": True,
                            "extra_fields": [["name"], ["nested", "deep"]],
                        }
                    ],
                },
                incremental_sync={**CURSOR, "global_substream_cursor": True},
                requester={"path": "/users/{{ stream_partition.user }}/posts"},
            ),
        ),
        "changes": manifest(
            stream(
                "changed",
                selector={
                    "record_filter": {"type": "RecordFilter", "condition": "{{ record['id'] | int > 0 }}"},
                    "schema_normalization": "Default",
                },
                transformations=[
                    {
                        "type": "AddFields",
                        "fields": [
                            {"type": "AddedFieldDefinition", "path": ["a", "b"], "value": "{{ record['id'] * 2 }}"},
                            {"type": "AddedFieldDefinition", "path": ["c"], "value": "{{ record.nested | tojson }}"},
                        ],
                    },
                    {"type": "RemoveFields", "field_pointers": [["name"], ["nested", "*"]]},
                    {"type": "KeysToLower"},
                    {"type": "KeysToSnakeCase"},
                    {"type": "FlattenFields", "flatten_lists": True},
                    {"type": "KeysReplace", "old": "e", "new": "{{ config['nested']['user'] }}"},
                    {"type": "DpathFlattenFields", "field_path": ["nested"]},
                ],
                schema_loader={
                    "type": "InlineSchemaLoader",
                    "schema": {"type": "object", "properties": {"id": {"type": "integer"}, "c": {"type": "string"}}},
                },
            )
        ),
        "errors": manifest(
            stream(
                "errors",
                requester={
                    "http_method": "POST",
                    "request_body_json": {"q": {"deep": "{{ config['start'] }}"}, "n": "{{ 1 + 1 }}"},
                    "request_headers": {"X-Region": "{{ config['regions'][0] }}"},
                    "request_parameters": {"a": "{{ day_delta(-1) }}", "b": "{{ max(1, 2) }}"},
                    "error_handler": {
                        "type": "CompositeErrorHandler",
                        "error_handlers": [
                            {
                                "type": "DefaultErrorHandler",
                                "max_retries": 2,
                                "backoff_strategies": [
                                    {"type": "WaitTimeFromHeader", "header": "Retry-After", "regex": "[0-9]+"},
                                    {"type": "WaitUntilTimeFromHeader", "header": "X-Reset", "min_wait": 1},
                                    {"type": "ExponentialBackoffStrategy", "factor": "{{ config['workers'] }}"},
                                ],
                                "response_filters": [
                                    {
                                        "type": "HttpResponseFilter",
                                        "action": "IGNORE",
                                        "http_codes": [404],
                                        "predicate": "{{ 'gone' in response.get('error', '') }}",
                                        "error_message": "it said {{ response }}",
                                    }
                                ],
                            },
                            {"type": "DefaultErrorHandler", "backoff_strategies": []},
                        ],
                    },
                },
            )
        ),
        "oauth": manifest(
            stream("mine", requester={"authenticator": OAUTH}),
            stream(
                "basic",
                requester={
                    "authenticator": {
                        "type": "BasicHttpAuthenticator",
                        "username": "{{ config['nested']['user'] }}",
                        "password": "{{ config['api_key'] }}",
                    }
                },
            ),
            stream(
                "keyed",
                requester={
                    "authenticator": {
                        "type": "ApiKeyAuthenticator",
                        "api_token": "{{ config['api_key'] }}",
                        "inject_into": option("key"),
                    }
                },
            ),
        ),
        "decoders": manifest(
            *(
                stream(f"decoded_{i}", decoder=decoder)
                for i, decoder in enumerate(
                    [
                        {"type": "JsonlDecoder"},
                        {"type": "XmlDecoder"},
                        {"type": "GzipDecoder", "decoder": {"type": "CsvDecoder", "delimiter": ";"}},
                        {"type": "ZipfileDecoder", "decoder": {"type": "JsonDecoder"}},
                        {"type": "CsvDecoder", "encoding": "latin-1"},
                    ]
                )
            )
        ),
        "dynamic": manifest(
            users,
            dynamic_streams=[
                {
                    "type": "DynamicDeclarativeStream",
                    "name": "tables",
                    "stream_template": stream("placeholder"),
                    "components_resolver": {
                        "type": "HttpComponentsResolver",
                        "retriever": users["retriever"],
                        "components_mapping": [
                            {
                                "type": "ComponentMappingDefinition",
                                "field_path": ["name"],
                                "value": "{{ components_values['id'] }}",
                            }
                        ],
                    },
                }
            ],
        ),
        "references": manifest(
            {"$ref": "#/definitions/users"},
            {**users, "name": "again", "retriever": {"$ref": "#/definitions/users/retriever"}},
            definitions={"users": {**users, "$parameters": {"path": "x", "name": "users"}}},
            concurrency_level={"type": "ConcurrencyLevel", "default_concurrency": "{{ config['workers'] }}"},
            api_budget={
                "type": "HTTPAPIBudget",
                "policies": [
                    {
                        "type": "MovingWindowCallRatePolicy",
                        "rates": [{"type": "Rate", "limit": 100, "interval": "PT1S"}],
                        "matchers": [],
                    }
                ],
            },
        ),
        "jobs": manifest(
            {
                "type": "DeclarativeStream",
                "name": "report",
                "retriever": {
                    "type": "AsyncRetriever",
                    "record_selector": users["retriever"]["record_selector"],
                    "status_mapping": {
                        "type": "AsyncJobStatusMap",
                        "running": ["running"],
                        "completed": ["completed"],
                        "failed": ["failed"],
                        "timeout": ["timeout"],
                    },
                    "status_extractor": {"type": "DpathExtractor", "field_path": ["status"]},
                    "download_target_extractor": {"type": "DpathExtractor", "field_path": ["urls"]},
                    "creation_requester": users["retriever"]["requester"],
                    "polling_requester": users["retriever"]["requester"],
                    "download_requester": {**users["retriever"]["requester"], "path": "{{ download_target }}"},
                },
            }
        ),
        "config": manifest(
            stream("typed"),
            spec={
                **SPEC,
                "config_normalization_rules": {
                    "type": "ConfigNormalizationRules",
                    "config_migrations": [
                        {
                            "type": "ConfigMigration",
                            "transformations": [
                                {"type": "ConfigRemapField", "map": {"a": "b"}, "field_path": ["kind"]}
                            ],
                        }
                    ],
                    "transformations": [
                        {
                            "type": "ConfigAddFields",
                            "fields": [
                                {"type": "AddedFieldDefinition", "path": ["x"], "value": "{{ config['start'] }}"}
                            ],
                        },
                        {"type": "ConfigRemoveFields", "field_pointers": [["kind"]]},
                    ],
                    "validations": [
                        {
                            "type": "DpathValidator",
                            "field_path": ["nested", "size"],
                            "validation_strategy": {
                                "type": "ValidateAdheresToSchema",
                                "base_schema": {"type": "integer"},
                            },
                        }
                    ],
                },
            },
        ),
    }
    return made


MANIFESTS = _all()
