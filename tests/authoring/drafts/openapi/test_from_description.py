"""Drafts read what the described API holds, and say what they guess."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from cdk.authoring.drafts.draft import Draft, StreamDraft
from cdk.authoring.drafts.manifest_text import manifest_text
from cdk.authoring.drafts.openapi.description import Description
from cdk.authoring.drafts.openapi.from_description import draft_of
from cdk.base.errors import ConfigError
from cdk.base.values import Json
from cdk.testing import MockApi, read
from tests.authoring.drafts.openapi.described_api import DescribedApi, described_apis


@contextmanager
def manifest_of(draft: Draft) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "manifest.yaml"
        path.write_text(manifest_text(draft))
        yield path


@settings(max_examples=25, deadline=None)
@given(described_apis())
def test_a_draft_reads_all_that_the_described_api_holds(api: DescribedApi) -> None:
    draft = draft_of(Description(api.description()))

    with manifest_of(draft) as manifest:
        config = {name: value for name, value in api.config.items() if name in draft.config.properties}
        run = read(manifest, config=config, transport=api.mock())

    assert run.error is None
    assert {each.stream: run.records_of(each.stream) for each in api.resources} == {
        each.stream: each.all_rows() for each in api.resources
    }
    assert run.schema_errors == []
    components: dict[str, Json] = {stream.name: stream.component for stream in draft.streams}
    assert {each.stream: ([*each.parents, each.field], each.cursor) for each in api.resources} == {
        name: (list(listed(component["primary_key"])), component.get("incremental_sync", {}).get("cursor_field"))
        for name, component in components.items()
    }


def test_a_post_that_reads_is_drafted_once_and_other_ones_are_named() -> None:
    rows = {"content": {"application/json": {"schema": records(id=TEXT)}}}
    text = {"content": {"application/json": {"schema": TEXT}}}
    ways: dict[str, tuple[str, Json]] = {
        "/orders/filter": ("post", rows),
        "/orders/paginate": ("post", rows),
        "/users/search": ("post", rows),
        "/users": ("get", rows),
        "/notes/query": ("post", text),
        "/notes": ("post", rows),
    }
    paths = {path: {method: {"responses": {"200": response}}} for path, (method, response) in ways.items()}

    draft = draft_of(Description({"openapi": "3.0.0", "paths": paths}))

    assert {stream.name: path_of(stream.component) for stream in draft.streams} == {
        "orders": "/orders/filter",
        "users": "/users",
    }
    assert {each.path: each.reason for each in draft.left_out} == {
        "/orders/paginate": "it reads the records of `/orders/filter`",
        "/users/search": "it reads the records of `/users`",
        "/notes/query": "the response is a string, expected a list of objects",
    }


def path_of(component: Json) -> Json:
    return component["retriever"]["requester"]["path"]


TEXT = {"type": "string"}


def listed(key: Json) -> list[str]:
    return key if isinstance(key, list) else [key]


def described(response: Json, *parameters: Json, path: str = "/orders", **more: Json) -> Description:
    """A description with one path."""
    get = {
        "parameters": list(parameters),
        "responses": {"200": {"content": {"application/json": {"schema": response}}}},
    }
    servers: Json = [{"url": "https://api.example.com"}]
    document: Json = {"openapi": "3.0.0", "servers": servers, "paths": {path: {"get": get}}, **more}
    return Description(document)


def records(**properties: Json) -> Json:
    return {"type": "array", "items": {"type": "object", "properties": properties}}


def component(description: Description) -> Json:
    return only_stream(draft_of(description))


def only_stream(draft: Draft) -> Json:
    (stream,) = draft.streams
    return stream.component


def query(name: str, *, required: bool = False, **schema: Json) -> Json:
    return {"name": name, "in": "query", "required": required, "schema": schema}


def test_a_schema_stands_alone_and_ends_where_it_recurs() -> None:
    node = {
        "allOf": [{"$ref": "#/components/schemas/Named"}],
        "properties": {
            "id": {"type": "integer", "nullable": True},
            "parent": {"$ref": "#/components/schemas/Node"},
            "kind": {"oneOf": [{"type": "string"}, {"type": "null"}]},
            "other": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
    }
    schemas = {"Node": node, "Named": {"properties": {"name": {"type": "string", "enum": ["a"]}}}}
    response = {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}

    schema = component(described(response, components={"schemas": schemas}))["schema_loader"]["schema"]

    assert schema == {
        "type": "object",
        "properties": {
            "name": {"type": ["null", "string"]},
            "id": {"type": ["null", "integer"]},
            "parent": {"type": ["null", "object"]},
            "kind": {"type": ["null", "string"]},
            "other": {},
        },
    }


def test_a_list_is_found_by_the_name_of_its_path_before_all_others() -> None:
    response = {"properties": {"data": records(), "orders": records(), "next": TEXT}}

    found = component(described(response))["retriever"]["record_selector"]["extractor"]["field_path"]

    assert found == ["orders"]


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ({"type": "string"}, "the response is a string, expected a list of objects"),
        ({"properties": {"a": records(), "b": records()}}, "the response has several lists: a, b"),
        ({"properties": {"name": TEXT, "tags": records()}}, "the response is one object, expected a list of objects"),
        ({"type": "array", "items": TEXT}, "its list has elements of the type string, expected objects"),
    ],
)
def test_what_is_no_collection_is_left_out_with_its_reason(response: Json, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"1 times: {reason}"):
        draft_of(described(response))


@pytest.mark.parametrize(
    ("parameter", "field", "pattern"),
    [
        (query("updated_since", type="string", format="date-time"), "updatedAt", "%Y-%m-%dT%H:%M:%SZ"),
        (query("modifiedAfter", type="string", format="date"), "updatedAt", "%Y-%m-%d"),
        (query("created[gte]", type="integer"), "created", "%s"),
        (query("created[gte]", type=["integer", "null"]), "created", "%s"),
        (query("since", type="string", format="date-time"), "updatedAt", "%Y-%m-%dT%H:%M:%SZ"),
        (query("after", type="string"), None, ""),
    ],
)
def test_a_cursor_goes_by_the_date_that_its_parameter_means(parameter: Json, field: str | None, pattern: str) -> None:
    dates = {"updatedAt": {**TEXT, "format": "date-time"}, "created": {"type": "integer"}}

    sync = component(described(records(id=TEXT, **dates), parameter)).get("incremental_sync", {})

    assert (sync.get("cursor_field"), sync.get("datetime_format", "")) == (field, pattern)


def test_pages_of_an_undocumented_size_are_read_up_to_an_empty_one() -> None:
    described_pages = described(records(id=TEXT), query("page", type="integer"), query("per_page", type="integer"))

    retriever = component(described_pages)["retriever"]

    assert "page_size" not in retriever["paginator"]["pagination_strategy"]
    assert retriever["requester"]["request_parameters"] == {"per_page": "100"}


def test_a_page_that_may_be_null_is_a_number() -> None:
    pages = component(described(records(id=TEXT), query("page", type=["integer", "null"])))["retriever"]["paginator"]

    assert pages["pagination_strategy"]["type"] == "PageIncrement"


@pytest.mark.parametrize(
    ("servers", "base"),
    [
        ([], "https://docs.example.com"),
        ([{"url": "/"}], "https://docs.example.com"),
        ([{"url": "v1/"}], "https://docs.example.com/api/v1"),
        (
            [{"url": "{scheme}://a.com", "variables": {"scheme": {"default": "https"}}}],
            "{{ config['scheme'] }}://a.com",
        ),
        ([{"url": "https://me:secret@a.com/"}], "https://a.com"),
        ([{"url": "https://[tenant].a.com/v1/"}], "{{ config['server'] }}/v1"),
        ([{"url": "https://{tenant}.a.com/v1"}], "{{ config['server'] }}/v1"),
    ],
)
def test_a_server_is_where_the_description_came_from_unless_it_says_otherwise(servers: Json, base: str) -> None:
    document: Json = {"openapi": "3.0.0", "servers": servers, "paths": {"/orders": get(records(id=TEXT))}}

    draft = draft_of(Description(document, origin="https://docs.example.com/api/openapi.json"))

    assert draft.requester["url_base"] == base


def test_the_port_of_a_server_is_a_string_of_the_config() -> None:
    servers: Json = [{"url": "https://a.com:{port}", "variables": {"port": {"default": 8443, "enum": [443, 8443]}}}]

    draft = draft_of(described(records(id=TEXT), servers=servers))

    port: Json = draft.config.properties["port"]
    assert (port["default"], port["enum"]) == ("8443", ["443", "8443"])


def test_a_required_parameter_with_one_value_is_sent_and_others_are_config() -> None:
    draft = draft_of(
        described(
            records(id=TEXT),
            query("kind", required=True, type="string", enum=["order"]),
            query("tenantId", required=True, type="integer"),
            query("q", type="string"),
        )
    )

    assert only_stream(draft)["retriever"]["requester"]["request_parameters"] == {
        "kind": "order",
        "tenantId": "{{ config['tenant_id'] }}",
    }
    assert (draft.config.required, draft.config.properties["tenant_id"]) == (
        ["tenant_id"],
        {"type": "integer", "title": "tenantId"},
    )


def test_two_keys_at_once_are_an_authenticator_and_a_header() -> None:
    schemes = {
        "a": {"type": "apiKey", "in": "header", "name": "X-Api"},
        "b": {"type": "apiKey", "in": "header", "name": "X-App"},
    }
    description = described(records(id=TEXT), components={"securitySchemes": schemes}, security=[{"a": [], "b": []}])

    draft = draft_of(description)

    assert draft.requester["request_headers"] == {"X-App": "{{ config['b'] }}"}
    assert [*draft.config.properties] == draft.config.required == ["api_key", "b"]


def test_a_second_key_in_a_cookie_is_one_of_the_header_cookie() -> None:
    schemes = {
        "a": {"type": "apiKey", "in": "header", "name": "X-Api"},
        "b": {"type": "apiKey", "in": "cookie", "name": "sid"},
    }
    description = described(records(id=TEXT), components={"securitySchemes": schemes}, security=[{"a": [], "b": []}])

    assert draft_of(description).requester["request_headers"] == {"Cookie": "sid={{ config['b'] }}"}


def test_a_parameter_that_no_parent_has_comes_from_the_config() -> None:
    draft = draft_of(described(records(id=TEXT), path="/shops/{shopId}/orders"))

    assert only_stream(draft)["retriever"]["requester"]["path"] == "/shops/{{ config['shop_id'] }}/orders"


@pytest.mark.parametrize(
    "document", [[], {"openapi": "3.0.0"}, {"paths": {"/a": {}}}, {"swagger": "1.2", "paths": {"/a": 1}}]
)
def test_what_is_no_description_is_refused(document: Json) -> None:
    with pytest.raises(ConfigError, match="is not an OpenAPI description: found"):
        Description(document)


@pytest.mark.parametrize(
    "item",
    [
        {"get": {"responses": {"200": {"content": [1]}}}},
        {"get": {"parameters": [1, {"name": 1}], "responses": {"200": {"$ref": "other.yaml#/a"}}}},
        {"get": {"responses": {"200": {"schema": {"$ref": "#/paths/~1a/get/responses/200/schema"}}}}},
        {"get": {"responses": {"200": {"schema": {"type": "array", "items": {"allOf": {"a": 1}}}}}}},
    ],
)
def test_odd_descriptions_have_no_collection(item: Json) -> None:
    with pytest.raises(ConfigError, match="no operation in it returns"):
        draft_of(Description({"openapi": "3.1.0", "paths": {"/a": item}}))


def get(response: Json, *parameters: Json) -> Json:
    response = {"content": {"application/json": {"schema": response}}}
    return {"get": {"parameters": list(parameters), "responses": {"200": response}}}


def retriever(stream: StreamDraft) -> Json:
    return stream.component["retriever"]


def with_paths(**paths: Json) -> Draft:
    return draft_of(Description({"openapi": "3.0.0", "paths": {f"/{path}": item for path, item in paths.items()}}))


def test_a_path_below_an_unlisted_resource_goes_through_the_only_stream_of_that_name() -> None:
    rows = records(id=TEXT)
    draft = with_paths(**{"orgs/{org}/teams": get(rows), "teams/{id}/members": get(rows), "users/{id}/keys": get(rows)})

    paths = [retriever(stream)["requester"]["path"] for stream in draft.streams]
    assert paths == [
        "/orgs/{{ config['org'] }}/teams",
        "/teams/{{ stream_partition['id'] }}/members",
        "/users/{{ config['user_id'] }}/keys",
    ]


def test_streams_never_are_parents_of_each_other() -> None:
    rows = records(id=TEXT)
    draft = with_paths(**{"a/{id}/b": get(rows), "b/{id}/a": get(rows)})

    assert ["partition_router" in str(stream.component) for stream in draft.streams] == [True, False]


def test_a_list_of_one_record_by_its_key_is_no_stream() -> None:
    draft = with_paths(**{"bounces": get(records(email=TEXT)), "bounces/{email}": get(records(email=TEXT))})

    assert [stream.name for stream in draft.streams] == ["bounces"]
    assert [each.reason for each in draft.left_out] == ["it reads records of another stream by their key"]


def test_pages_that_a_response_does_not_describe_are_those_of_other_streams() -> None:
    paged = {"properties": {"data": records(), "next_cursor": TEXT}}
    draft = with_paths(
        a=get(paged, query("cursor", type="string"), query("limit", type="integer", maximum=10)),
        b=get({"properties": {"data": records()}}, query("cursor", type="string")),
        c=get({"properties": {"data": records()}}, query("limit", type="integer")),
    )

    one, two, three = (retriever(stream).get("paginator") for stream in draft.streams)
    assert (one["pagination_strategy"]["page_size"], three) == (10, None)
    assert two == {
        "type": "DefaultPaginator",
        "pagination_strategy": {"type": "CursorPagination", "cursor_value": "{{ response.get('next_cursor') }}"},
        "page_token_option": one["page_token_option"],
    }


def test_parameters_of_another_stream_are_not_sent_with_its_pages() -> None:
    draft = with_paths(
        a=get({"properties": {"data": records()}}, query("page", type="integer"), query("limit", type="integer")),
        b=get({"properties": {"data": records()}}, query("page", type="string"), query("take", type="string")),
    )

    one, two = map(retriever, draft.streams)
    assert one["requester"]["request_parameters"] == {"limit": "100"}
    assert two["paginator"] == one["paginator"]
    assert "limit" not in str(two)


def test_a_key_in_the_header_authorization_is_a_bearer_token_where_the_description_says_so() -> None:
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "Authorization"}}

    kinds: list[Json] = [
        draft_of(described(records(id=TEXT), components={"securitySchemes": schemes}, info=info)).requester[
            "authenticator"
        ]
        for info in ({}, {"description": "Send `Bearer YOUR_KEY`."})
    ]

    assert [kind["type"] for kind in kinds] == ["ApiKeyAuthenticator", "BearerAuthenticator"]


def test_a_schema_that_would_grow_without_measure_is_cut() -> None:
    wide = {
        f"Level{n}": {"properties": {f"f{m}": {"$ref": f"#/components/schemas/Level{n + 1}"} for m in range(30)}}
        for n in range(6)
    }
    response = {"type": "array", "items": {"$ref": "#/components/schemas/Level0"}}

    schema = component(described(response, components={"schemas": wide}))["schema_loader"]["schema"]

    assert len(str(schema)) < 100_000
    assert len(schema["properties"]) == 30


def test_a_required_parameter_called_as_the_start_of_a_cursor_is_a_field_of_its_own() -> None:
    day = query("start_date", required=True, type="string", format="date")
    since = query("updated_since", type="string", format="date-time")

    draft = draft_of(described(records(updated_at={**TEXT, "format": "date-time"}), day, since))

    assert list(draft.config.properties) == ["start_date", "start_date_parameter"]
    assert draft.config.required == ["start_date_parameter"]


@pytest.mark.parametrize("odd", [{}, [1], None, 1.5])
def test_parameters_and_fields_of_odd_types_are_drafted_all_the_same(odd: Json) -> None:
    rows = records(id={"type": odd, "format": odd}, updated_at={"type": odd})

    stream = component(described(rows, query("offset", type=odd), query("updated_since", type=odd, format=odd)))

    assert stream["name"] == "orders"


def test_a_list_of_errors_is_never_the_records() -> None:
    found = component(described({"properties": {"errors": records(), "things": records(id=TEXT)}}))

    assert found["retriever"]["record_selector"]["extractor"]["field_path"] == ["things"]


def test_the_plain_start_of_a_window_goes_by_the_creation_for_none_is_missed_then() -> None:
    dates = {name: {**TEXT, "format": "date-time"} for name in ("updated_at", "created_at")}
    bounds = [query(name, type="string", format="date-time", required=name == "to") for name in ("from", "to")]

    sync = component(described(records(id=TEXT, **dates), *bounds))["incremental_sync"]

    assert sync["cursor_field"] == "created_at"
    assert [sync[f"{side}_time_option"]["field_name"] for side in ("start", "end")] == ["from", "to"]


def test_what_is_sorted_by_is_sent_where_a_window_goes_by_it() -> None:
    dates = {name: {**TEXT, "format": "date-time"} for name in ("updated_at", "created_at")}
    begin: Json = {**query("begin_time", type="string", format="date-time"), "description": "With `sort=created_at`."}
    sort, order = query("sort", enum=[*dates]), query("order", enum=["asc", "desc"])

    stream = component(described(records(id=TEXT, **dates), begin, query("end_time"), sort, order))

    assert stream["incremental_sync"]["cursor_field"] == "updated_at"
    assert stream["retriever"]["requester"]["request_parameters"] == {"sort": "updated_at", "order": "asc"}


def test_a_body_that_is_a_list_has_no_next_page_in_it() -> None:
    linked = {"properties": {"data": records(), "next_url": TEXT}}
    draft = with_paths(a=get(linked), b=get(linked), c=get(records(id=TEXT), query("limit", type="integer")))

    assert [retriever(stream).get("paginator") is None for stream in draft.streams] == [False, False, True]


def test_a_link_header_is_known_however_it_is_written() -> None:
    after: Json = {**query("after"), "description": "Obtained from the `Link` response header."}

    pages = component(described(records(id=TEXT), after))["retriever"]["paginator"]

    assert pages["page_token_option"] == {"type": "RequestPath"}


def test_what_most_records_have_as_their_identifier_is_the_key() -> None:
    rows = records(code=TEXT, acme_id=TEXT, customer_id=TEXT)
    names = ("customers", "plans", "coupons")
    one = {f"{name}/{{code}}": get({"properties": {"code": TEXT}}) for name in names}

    draft = with_paths(**{name: get(rows) for name in names}, **one)

    keys = {stream.name: stream.component["primary_key"] for stream in draft.streams}
    assert keys == {"customers": "customer_id", "plans": "acme_id", "coupons": "acme_id"}


@pytest.mark.parametrize("parameter", ["roleIdOrLabel", "role_id_or_slug", "identifier"])
def test_a_parameter_that_may_be_one_of_two_is_the_identifier(parameter: str) -> None:
    rows = records(label=TEXT, slug=TEXT, id=TEXT)
    draft = with_paths(**{"roles": get(rows), f"roles/{{{parameter}}}/permissions": get(rows)})

    (router,) = [retriever(stream)["partition_router"] for stream in draft.streams[1:]]
    assert router["parent_stream_configs"][0]["parent_key"] == "id"


def test_records_below_parents_have_the_parents_keys_as_a_part_of_their_own() -> None:
    number, thing = {"type": "integer"}, {"type": "object"}
    draft = with_paths(
        **{
            "teams": get(records(id=TEXT)),
            "teams/{teamId}/projects": get(records(id=number)),
            "teams/{teamId}/projects/{id}/tasks": get(records(id=number, teamId=TEXT)),
            "teams/{team}/members": get(records(id=TEXT, team=thing)),
            "teams/{team}/logs": get(records(text=TEXT)),
        }
    )
    api = MockApi()
    api.get("/teams").returns(json=[{"id": "007"}, {"id": "8"}])
    api.get("/teams/*/projects").returns(json=[{"id": 1}])
    for team in ("007", "8"):
        api.get(f"/teams/{team}/projects/1/tasks").returns(json=[{"id": 5, "teamId": team}])
    api.get("/teams/*/members").returns(json=[{"id": "m", "team": {}}])
    api.get("/teams/*/logs").returns(json=[{"text": "t"}])

    with manifest_of(draft) as manifest:
        run = read(manifest, config={"server": "https://api.example.com"}, transport=api)

    keys = {stream.name: stream.component.get("primary_key") for stream in draft.streams}
    assert (run.error, run.schema_errors) == (None, [])
    assert [(name, keys[name], run.records_of(name)) for name in keys if name != "teams"] == [
        ("teams_projects", ["team_id", "id"], [{"id": 1, "team_id": "007"}, {"id": 1, "team_id": "8"}]),
        (
            "teams_projects_tasks",
            ["teamId", "project_id", "id"],
            [{"id": 5, "teamId": team, "project_id": 1} for team in ("007", "8")],
        ),
        ("teams_members", ["team_id", "id"], [{"id": "m", "team": {}, "team_id": team} for team in ("007", "8")]),
        ("teams_logs", None, [{"text": "t", "team": team} for team in ("007", "8")]),
    ]
