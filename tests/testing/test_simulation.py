import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import freezegun
import pytest
import requests
import requests_mock
import responses

from cdk import Json, Slice, Source, Stream
from cdk.base.times.clock import Stopped, interruptible, sleep, system_clock
from cdk.rest import HttpTransport, Request
from cdk.testing import MockApi, MockClock, at, read, simulated, state
from tests.testing.blog import CONFIG, URL, Blog, Users, blog_api

MANIFEST = """
    version: 6.0.0
    type: DeclarativeSource
    check: {type: CheckStream, stream_names: [users]}
    spec:
      type: Spec
      connection_specification:
        {type: object, properties: {secret: {type: string, airbyte_secret: true}}}
    definitions:
      users:
        type: DeclarativeStream
        name: users
        primary_key: id
        schema_loader: {type: InlineSchemaLoader, schema: {type: object, properties: {id: {type: integer}}}}
        retriever:
          type: SimpleRetriever
          requester: &requester
            type: HttpRequester
            url_base: https://api.blog.test
            path: /users
            authenticator:
              type: OAuthAuthenticator
              token_refresh_endpoint: https://api.blog.test/token
              client_id: app
              client_secret: "{{ config['secret'] }}"
              refresh_token: r
          paginator:
            type: DefaultPaginator
            page_token_option: {type: RequestOption, inject_into: request_parameter, field_name: page}
            pagination_strategy: {type: PageIncrement, page_size: 2, start_from_page: 1, inject_on_first_request: true}
          record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: [users]}}
    streams:
      - $ref: "#/definitions/users"
      - type: DeclarativeStream
        name: posts
        primary_key: id
        schema_loader: {type: InlineSchemaLoader, schema: {type: object, properties: {id: {type: integer}}}}
        retriever:
          type: SimpleRetriever
          requester:
            <<: *requester
            path: "/users/{{ stream_partition.user }}/posts"
          record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: [posts]}}
          partition_router:
            type: SubstreamPartitionRouter
            parent_stream_configs:
              - {type: ParentStreamConfig, stream: "#/definitions/users", parent_key: id, partition_field: user}
"""


@pytest.fixture(params=["python", "manifest"])
def blog(request: pytest.FixtureRequest, tmp_path: Path) -> Source | Path:
    """The same connector in both of its forms."""
    if request.param == "python":
        return Blog()
    (tmp_path / "manifest.yaml").write_text(dedent(MANIFEST))
    return tmp_path / "manifest.yaml"


def test_a_whole_source_is_read_with_parents_and_logins_and_without_a_line_for_it(blog: Source | Path) -> None:
    api = blog_api(uses=3)

    run = read(blog, config=CONFIG, transport=api, concurrency=2)

    assert run.error is None
    assert sorted(record["id"] for record in run.records) == [1, 1, 2, 2, 3, 3]
    assert run.schema_errors == []
    assert len({request.headers.get("Authorization") for request in api.requests}) >= 3
    api.assert_all_used()


def test_a_config_is_checked_as_the_commands_do_and_its_secrets_are_masked() -> None:
    api = blog_api()
    api.get("/users").returns(status=404, json={"message": "no users for s3cret-of-the-app"})

    run = read(Blog(), "users", config=CONFIG, transport=api)

    assert "s3cret" not in str(run.messages) + str(run.logs)
    assert "secret: found nothing, expected a value" in str(read(Blog(), transport=api).error)


def test_a_request_that_the_api_does_not_know_fails_the_test() -> None:
    api = MockApi()
    api.issues_tokens("/token", uses=9)

    with pytest.raises(AssertionError, match="no route for GET https://api"):
        read(Blog(), "users", config=CONFIG, transport=api)


def test_waits_move_the_clock_on_and_take_no_time() -> None:
    api, clock = blog_api(), MockClock("2024-05-01T00:00:00")
    api.get("/users", params={"page": 1}).returns(status=429, headers={"Retry-After": "300"}).returns(
        json={"users": []}
    )
    before = time.monotonic()

    run = read(Blog(), "users", config=CONFIG, transport=api, clock=clock)

    assert run.error is None
    assert clock.waits == [300]
    assert clock() == datetime(2024, 5, 1, 0, 5, tzinfo=UTC)
    assert time.monotonic() - before < 60


def test_redirects_are_followed_and_the_world_is_as_before_in_the_end() -> None:
    api = MockApi()
    api.get("/users").returns(status=302, headers={"Location": "/people"})
    api.get("/people").returns(json=[1])

    with simulated(api, MockClock("2020-01-01")):
        assert system_clock().year == 2020
        assert HttpTransport().send(Request("GET", f"{URL}/users")).json() == [1]
        with simulated():
            assert system_clock().year == 2020

    assert system_clock().year > 2020


def test_a_simulated_wait_ends_for_who_wants_it_to_end() -> None:
    stop = threading.Event()
    ended: list[bool] = []

    def wait() -> None:
        interruptible(stop)
        sleep(1000)
        stop.set()
        try:
            sleep(1000)
        except Stopped:
            ended.append(True)

    with simulated(clock=MockClock()):
        thread = threading.Thread(target=wait)  # noqa: TID251 - a wait of another context
        thread.start()
        thread.join(60)

    assert ended == [True]


def test_every_state_that_a_read_could_resume_from_may_be_had() -> None:
    users = [{"id": number} for number in range(9)]
    api = MockApi()
    api.issues_tokens("/token", uses=99)
    api.get("/users").serves(users, size=2, at="users")

    run = read(Users(CONFIG), transport=api, every_state=True)

    assert [each_state.get("page") for each_state in run.states[:4]] == [2, 3, 4, 5]


def test_records_that_do_not_fit_their_schema_are_listed() -> None:
    api = blog_api()
    api.get("/users").serves([{"id": "1"}, {"id": 2, "name": 5}], size=2, at="users")
    api.get("/users", params={"page": 2}).returns(json={"users": []})

    assert read(Users(CONFIG), transport=api).schema_errors == [
        "users, record 1, id: found '1', expected an integer",
        "users, record 2, name: found 5, expected a string or null",
    ]


def test_responses_answers() -> None:
    with responses.RequestsMock() as api:
        api.post(f"{URL}/token", json={"access_token": "t", "expires_in": 60})
        api.get(f"{URL}/users", json={"users": [{"id": 1}]})

        assert read(Users(CONFIG)).records == [{"id": 1}]


def test_requests_mock_answers_and_its_redirects_are_followed() -> None:
    with requests_mock.Mocker() as api:
        api.post(f"{URL}/token", json={"access_token": "t", "expires_in": 60})
        api.get(f"{URL}/users", status_code=302, headers={"Location": "/people", "Set-Cookie": "a=b"})
        api.get(f"{URL}/people", json={"users": [{"id": 1}]})

        assert read(Users(CONFIG)).records == [{"id": 1}]
        assert "Cookie" not in api.request_history[-1].headers


class OwnRequests(Stream):
    """A stream that goes around the kit."""

    def read_records(self, slice: Slice) -> Iterator[Json]:  # noqa: ARG002 - there is one
        yield from requests.get(f"{URL}/users", timeout=9).json()["users"]


def test_a_stream_with_requests_of_its_own_reaches_no_network_past_a_mock_api() -> None:
    run = read(OwnRequests(CONFIG), transport=blog_api())

    assert "found a connection to api.blog.test:443 that the kit does not open" in str(run.error)
    assert "test_simulation.py:" in str(run.error)
    assert run.records == []


def test_mock_libraries_answer_requests_that_go_around_a_mock_api() -> None:
    with responses.RequestsMock() as api:
        api.get(f"{URL}/users", json={"users": [{"id": 1}]})

        assert read(OwnRequests(CONFIG), transport=blog_api()).records == [{"id": 1}]

    with requests_mock.Mocker() as other:
        other.get(f"{URL}/users", json={"users": [{"id": 2}]})

        assert read(OwnRequests(CONFIG), transport=blog_api()).records == [{"id": 2}]


def test_freezegun_stops_the_clock_of_the_kit() -> None:
    with freezegun.freeze_time("2024-05-01T12:00:00Z"):
        assert system_clock() == datetime(2024, 5, 1, 12, tzinfo=UTC)
        assert MockClock()() == datetime(2024, 5, 1, 12, tzinfo=UTC)
        run = read(Users(CONFIG), transport=blog_api(), state=state(users=at(page=2)))

    assert run.messages[0]["trace"]["emitted_at"] == 1714564800000
