"""A config of dlt becomes a manifest that requests what dlt does, and a list of what could not be carried over."""

import json
from pathlib import Path

import pytest
import yaml

from cdk import ConfigError
from cdk.authoring.drafts.draft import Draft
from cdk.authoring.drafts.imports.dlt_file import read_dlt_config
from cdk.authoring.drafts.imports.dlt_rest_api import draft_of_dlt
from cdk.authoring.drafts.manifest_text import manifest_text
from cdk.base.values import Json, JsonValue, as_object
from cdk.testing import MockApi, MockClock, Route, read
from cdk.testing.run import ReadResult

SECRET = "hush-5f2d91c07b"
BLOG = """
import dlt
raise SystemExit("this is never run")

def blog(start=dlt.config.value):
    return rest_api_source({
        "client": {
            "base_url": "https://blog.test/v1/",
            "auth": {"type": "api_key", "name": "X-Key", "api_key": dlt.secrets["blog.key"], "location": "header"},
            "headers": {"X-Tenant": dlt.config["tenant"], "X-Token": "hush-5f2d91c07b"},
            "paginator": {"type": "cursor", "cursor_path": "paging.next", "cursor_param": "after"},
        },
        "resource_defaults": {"primary_key": "id", "endpoint": {"params": {"size": 2}}},
        "resources": [
            {
                "name": "posts",
                "write_disposition": "merge",
                "endpoint": {
                    "path": "posts",
                    "data_selector": "data.items[*]",
                    "params": {"since": "{incremental.start_value}"},
                    "incremental": {
                        "cursor_path": "at",
                        "initial_value": "2024-01-25T00:00:00Z",
                        "convert": lambda value: value,
                    },
                },
                "processing_steps": [{"filter": lambda post: post["id"]}],
            },
            {
                "name": "comments",
                "include_from_parent": ["title"],
                "endpoint": {
                    "path": "posts/{resources.posts.id}/comments",
                    "paginator": "single_page",
                    "data_selector": "$",
                    "response_actions": [{"status_code": 404, "action": "ignore"}, {"content": "x", "action": print}],
                },
            },
            tags(),
        ],
    })
"""


def _drafted(folder: Path, text: str, name: str = "blog.py") -> Draft:
    (folder / name).write_text(text)
    return draft_of_dlt(read_dlt_config(folder / name), name)


def _read(folder: Path, draft: Draft, api: MockApi) -> ReadResult:
    (folder / "manifest.yaml").write_text(manifest_text(draft))
    return read(
        folder / "manifest.yaml", config=draft.config.example, transport=api, clock=MockClock("2024-03-01T00:00:00Z")
    )


def _resource(folder: Path, **endpoint: JsonValue) -> Draft:
    config = {"client": {"base_url": "https://a.test"}, "resources": [{"name": "rows", "endpoint": endpoint}]}
    return _drafted(folder, json.dumps(config), "config.json")


def test_a_dict_in_python_requests_what_dlt_does(tmp_path: Path) -> None:
    api = MockApi()
    first = {"data": {"items": [{"id": 1, "at": "2024-02-01T00:00:00Z", "title": "a"}]}, "paging": {"next": "t2"}}
    api.get("/v1/posts", {"since": "2024-01-25T00:00:00Z", "size": "2"}).returns(json=first)
    second = {"data": {"items": [{"id": 2, "at": "2024-02-02T00:00:00Z", "title": "b"}]}, "paging": {}}
    last = api.get("/v1/posts", {"after": "t2", "size": "2"}).returns(json=second)
    api.get("/v1/posts/1/comments").returns(json=[{"id": 7}])
    api.get("/v1/posts/2/comments").returns(status=404, json={})

    draft = _drafted(tmp_path, BLOG)
    run = _read(tmp_path, draft, api)

    assert run.error is None
    assert [record["id"] for record in run.records_of("posts")] == [1, 2]
    assert run.records_of("comments") == [{"id": 7, "_posts_title": "a"}]
    assert last.requests[0].headers["X-Key"] == draft.config.example["api_key"]
    assert last.requests[0].headers["X-Tenant"] == "the tenant"


def test_strings_in_json_may_have_escapes_of_json(tmp_path: Path) -> None:
    (stream,) = _resource(tmp_path, path="rows", params={"mood": "\U0001f600"}).streams

    requester = as_object(as_object(stream.component["retriever"])["requester"])
    assert requester["request_parameters"] == {"mood": "\U0001f600"}


def test_secrets_are_carried_nowhere_and_what_is_code_is_listed(tmp_path: Path) -> None:
    draft = _drafted(tmp_path, BLOG)

    assert SECRET not in manifest_text(draft) + str(draft)
    assert sorted(draft.config.required) == ["api_key", "tenant", "x_token"]
    assert [each.path for each in draft.left_out] == [
        "resources",
        "resources.posts.processing_steps",
        "resources.posts.endpoint.incremental.convert",
        "resources.comments.endpoint.response_actions[1]",
    ]
    assert "found `lambda value: value`, which is Python code" in draft.left_out[2].reason
    assert any("`write_mode: append_dedup`" in guess.check for guess in draft.streams[0].guesses)


@pytest.mark.parametrize(
    ("paginator", "expected"),
    [
        ({"type": "page_number", "base_page": 1}, ["page=1", "page=2", "page=3"]),
        ({"type": "page_number"}, ["page=0", "page=1", "page=2"]),
        ({"type": "offset", "limit": 1}, ["limit=1", "limit=1&offset=1", "limit=1&offset=2"]),
        ({"type": "page_number", "total_path": None, "stop_after_empty_page": True}, ["page=0", "page=1", "page=2"]),
    ],
)
def test_pages_that_are_counted_end_with_an_empty_one(
    tmp_path: Path, paginator: JsonValue, expected: list[str]
) -> None:
    api = MockApi()
    route = api.get("/rows").returns(json=[{"id": 1}]).returns(json=[{"id": 2}]).returns(json=[])

    draft = _resource(tmp_path, path="rows", data_selector="$", paginator=paginator)
    run = _read(tmp_path, draft, api)

    assert [record["id"] for record in run.records] == [1, 2]
    assert draft.left_out == []
    assert ["&".join(sorted(request.full_url.partition("?")[2].split("&"))) for request in route.requests] == expected


def test_strings_that_look_like_something_else_are_sent_as_they_are(tmp_path: Path) -> None:
    body: Json = {"kind": "3", "of": ["1.10", "", {"at": "None"}], "n": 3}
    api = MockApi()
    route = api.add(Route("POST", "/rows", {"v": "1.10"})).returns(json=[{"id": 1}])

    draft = _resource(tmp_path, path="rows", method="POST", params={"v": "1.10"}, json=body, paginator="single_page")
    run = _read(tmp_path, draft, api)

    assert (run.error, json.loads(route.requests[0].body or b"")) == (None, body)


def test_links_lead_to_the_next_page(tmp_path: Path) -> None:
    for paginator, answer in (
        (
            {"type": "json_link", "next_url_path": "links.next"},
            {"json": {"d": [{"id": 1}], "links": {"next": "https://a.test/two"}}},
        ),
        ("header_link", {"json": {"d": [{"id": 1}]}, "headers": {"Link": '<https://a.test/two>; rel="next"'}}),
    ):
        api = MockApi()
        api.get("/rows").returns(**answer)
        api.get("/two").returns(json={"d": [{"id": 2}]})

        run = _read(tmp_path, _resource(tmp_path, path="rows", data_selector="d", paginator=paginator), api)

        assert [record["id"] for record in run.records] == [1, 2], paginator


def test_what_no_component_does_is_listed_with_its_place(tmp_path: Path) -> None:
    draft = _resource(
        tmp_path,
        path="rows",
        data_selector="$..items",
        paginator={
            "type": "offset",
            "limit": 5,
            "maximum_offset": 10,
            "total_path": "n",
            "stop_after_empty_page": False,
        },
        incremental={"cursor_path": "meta.at", "start_param": "since"},
    )

    assert sorted(each.path for each in draft.left_out) == [
        "resources.rows.endpoint.data_selector",
        "resources.rows.endpoint.incremental",
        "resources.rows.endpoint.paginator.maximum_offset",
        "resources.rows.endpoint.paginator.stop_after_empty_page",
        "resources.rows.endpoint.paginator.total_path",
    ]
    assert "incremental_sync" not in draft.streams[0].component


def test_a_first_value_says_how_values_are_written(tmp_path: Path) -> None:
    for initial, kind, written in (
        ("2024-01-25", "DatetimeBasedCursor", "%Y-%m-%d"),
        (1704067200, "DatetimeBasedCursor", "%s"),
        (5, "IncrementingCountCursor", None),
        (None, "DatetimeBasedCursor", "%Y-%m-%dT%H:%M:%SZ"),
    ):
        bound = {"type": "incremental", "cursor_path": "at", "initial_value": initial}
        cursor = _resource(tmp_path, path="rows", params={"from": bound}).streams[0].component["incremental_sync"]

        assert isinstance(cursor, dict)
        assert (cursor["type"], cursor.get("datetime_format")) == (kind, written)


def test_a_file_without_a_config_says_what_is_expected(tmp_path: Path) -> None:
    for name, text in {"a.py": "x = {'client': {}}", "b.yaml": yaml.safe_dump({"client": {}}), "c.py": "def"}.items():
        with pytest.raises(ConfigError, match=r"expected a RESTAPIConfig of dlt|cannot be read as Python"):
            _drafted(tmp_path, text, name)
    with pytest.raises(ConfigError, match="none of its `resources` has a name"):
        _drafted(tmp_path, json.dumps({"client": {"base_url": "https://a.test"}, "resources": [{}]}), "d.json")
