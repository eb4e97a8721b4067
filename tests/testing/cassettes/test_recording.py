from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import DatetimeCursor, Json, Stream
from cdk.base.errors import CatalogError
from cdk.rest import (
    Authenticator,
    Budget,
    CursorToken,
    Headers,
    OAuth2,
    PageNumber,
    Paginator,
    Request,
    Response,
    RestSource,
    SinglePage,
    resource,
)
from cdk.rest.auth.session_token import SessionToken
from cdk.rest.http.transport import outgoing
from cdk.testing import read
from cdk.testing.cassettes import Cassette, record
from cdk.testing.cassettes.drift import drift
from cdk.testing.cassettes.interactions import load, save
from cdk.testing.cassettes.recording import Recorder, RecordingClock, without_resumes
from tests.testing.cassettes.blog import BASE, CONFIG, Api, Blog, Posts
from tests.testing.cassettes.short_tokens import FIRST_REFRESH_TOKEN, short_tokens


def test_what_was_asked_before_is_not_asked_again_from_the_states() -> None:
    api = Api()

    recording = record(Blog(), CONFIG, sends=api.send)

    assert len(recording.interactions) == 1 + 9
    assert len(api.sent) == 1 + 9


def test_what_is_answered_from_the_recording_waits_for_nobody() -> None:
    statuses = iter([429, 200, 429, 200])

    def send(request: Request) -> Response:
        return Response(next(statuses), Headers({"Retry-After": "7"}), b"[]", request.full_url, request)

    waits: list[float] = []
    recorder = Recorder((), send)
    clock = RecordingClock(datetime(2024, 1, 1, tzinfo=UTC), recorder, waits.append)

    def get(path: str) -> None:
        while recorder.send(Request("GET", f"https://api.test/{path}")).status == 429:
            clock.sleep(7)

    get("a")
    with recorder.resuming():
        get("a")
        get("b")

    # Once for `a`, which the recording then answers, and once for `b`.
    assert (waits, clock.waits) == ([7, 7], [7, 7, 7])


def incremental() -> RestSource:
    """A source whose only stream asks for what was changed since its cursor."""
    items = resource(
        "items",
        "/items",
        records_path="items",
        primary_key="id",
        params={"since": "{window.start}"},
        cursor=DatetimeCursor("at", start="2024-01-01T00:00:00Z"),
        paginator=SinglePage(),
    )
    return RestSource("https://api.test", items)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_request_that_fails_in_passing_is_sent_again(nth: int, status: int) -> None:
    source, asked = incremental(), list[str]()

    def send(request: Request) -> Response:
        asked.append(str(request.params["since"]))
        ok, headers = len(asked) != nth, Headers({"Retry-After": "0", "Content-Type": "application/json"})
        body = b'{"items": [{"id": 1, "at": "2024-01-05T00:00:00Z"}]}'
        return Response(200 if ok else status, headers, body if ok else b"{}", request.full_url, request)

    recording = record(source, {}, sends=send)

    # From its state the stream asks for other rows.
    assert len(asked) == 3
    assert len(set(asked)) == 2
    cassette = Cassette(recording)
    first = read(source, "items", transport=cassette)
    assert (first.error, read(source, "items", transport=cassette, state=first.state_messages).error) == (None, None)


def oauth(base: str) -> Authenticator:
    return OAuth2(f"{base}/login", client_id="client", client_secret="s3cr3t-of-the-client")


def rotating(base: str) -> Authenticator:
    return OAuth2(f"{base}/login", client_id="client", client_secret="s3cr3t", refresh_token=FIRST_REFRESH_TOKEN)


def session(base: str) -> Authenticator:
    return SessionToken(
        lambda: Request("POST", f"{base}/login"),
        lambda response: response.json()["access_token"],
        lambda request, token: request.with_headers({"Authorization": f"Bearer {token}"}, secret=True),
        life=timedelta(hours=1),
    )


@pytest.mark.parametrize("login", [oauth, rotating, session])
def test_a_recording_may_outlast_its_access_tokens(login: Callable[[str], Authenticator]) -> None:
    with short_tokens() as api:
        items, more = (
            resource(
                name,
                "/items",
                records_path="items",
                primary_key="id",
                params={"since": "{window.start}", "of": name},
                cursor=DatetimeCursor("at", start="2024-01-01", formats=["%Y-%m-%d"], granularity="P1D", ordered=True),
                paginator=CursorToken("next", param="page"),
            )
            for name in ("items", "more")
        )
        source = RestSource(api.url, items, more, auth=login(api.url))

        recording = record(source, {})

    # Three requests a token: the responses that were recorded need none.
    assert 2 < api.logins < len(recording.interactions) / 2
    cassette = Cassette(recording)
    for name in ("items", "more"):
        first = read(source, name, transport=cassette, clock=cassette.clock, every_state=True)
        assert (first.error, len(first.records)) == (None, 10)
        for state in first.state_messages:
            assert read(source, name, transport=cassette, clock=cassette.clock, state=[state]).error is None


@given(st.integers(1, 4), st.permutations(["first", "second"]), st.integers(0, 3))
def test_waits_for_a_budget_change_no_request(calls: int, order: list[str], resumes: int) -> None:
    sent: list[Request] = []

    def send(request: Request) -> Response:
        sent.append(request)
        number = int(str(request.params.get("page", 1)))
        rows = [{"id": number, "at": f"2024-0{number}-01T00:00:00Z"}]
        body = orjson.dumps({"rows": rows, "next": number + 1 if number < 6 else None})
        return Response(200, Headers({}), body, request.full_url, request)

    def source(names: Sequence[str]) -> RestSource:
        streams = (
            resource(
                name,
                f"/{name}",
                records_path="rows",
                primary_key="id",
                params={"since": "{window.start}", "until": "{window.end}"},
                cursor=DatetimeCursor("at", start="2024-01-01", formats=["%Y-%m-%dT%H:%M:%S.%fZ"]),
                paginator=CursorToken("next", param="page"),
            )
            for name in names
        )
        return RestSource("https://api.test", *streams, budget=Budget(calls, timedelta(seconds=0.001)))

    cassette = Cassette(record(source(["first", "second"]), {}, sends=send, resumes=1 + resumes))

    with cassette.playing():
        read_all = read(source(order), clock=cassette.clock, transport=cassette)
        again = read(source(order), clock=cassette.clock, transport=cassette, state=read_all.state_messages)

    assert (read_all.error, len(read_all.records)) == (None, 12)
    assert again.error is None
    assert {request.params["until"] for request in sent} == {f"{cassette.recording.recorded_at:%Y-%m-%dT%H:%M:%S.%fZ}"}


def test_an_access_token_is_shared_by_all_reads_of_a_recording() -> None:
    api = Api()

    record(Blog(), CONFIG, sends=api.send)

    assert sum(request.url.endswith("/login") for request in api.sent) == 1


def test_only_the_named_streams_are_recorded() -> None:
    recording = record(Blog(), CONFIG, streams=["posts"], sends=Api().send)

    assert len(recording.interactions) == 1 + 3
    with pytest.raises(CatalogError, match="did you mean 'posts'"):
        record(Blog(), CONFIG, streams=["post"], sends=Api().send)


def test_a_read_that_fails_is_an_error_and_no_cassette() -> None:
    def refuse(request: Request) -> Response:
        return Response(403, Headers({}), b"", request.full_url, request)

    with pytest.raises(Exception, match="403"):
        record(Blog(), CONFIG, sends=refuse)


class Numbered(Posts):
    """Ends with the first page that is not full."""

    name = "numbered"
    paginator: Paginator = PageNumber(size=10)


class NumberedBlog(Blog):
    stream_classes: Sequence[type[Stream]] = (Numbered,)


def test_a_sample_has_fewer_records_of_each_page() -> None:
    cassette = Cassette(record(Blog(), CONFIG, streams=["posts"], sends=Api(posts=10).send, sample=3))

    run = read(Blog(), "posts", config=cassette.config, transport=cassette)

    ids = [f"all-{page}-{number}" for page in (1, 2, 3) for number in (0, 1, 9)]
    assert [item["id"] for item in run.records] == ids


def test_pages_that_hang_on_their_records_are_kept_whole() -> None:
    cassette = Cassette(record(NumberedBlog(), CONFIG, sends=Api(posts=10).send, sample=3))

    run = read(NumberedBlog(), config=cassette.config, transport=cassette)

    assert len(run.records) == 10 + 10 + 9


@pytest.mark.parametrize(
    ("api", "lines"),
    [
        (Api(), []),
        (Api(pages=4), [f"GET /****/posts: {3 * 3} requests recorded, {4 * 3} now"]),
        (Api(stars=5), ["GET /****/posts: field posts[].stars is new (integer)"]),
        (Api(key=5), ["GET /****/posts: field posts[].key was string, is integer"]),
    ],
)
def test_a_drift_is_said_with_its_place(api: Api, lines: list[str]) -> None:
    before = record(Blog(), CONFIG, sends=Api().send, resumes=0)

    assert drift(before, record(Blog(), CONFIG, sends=api.send, resumes=0)) == lines


def test_what_only_resumed_reads_ask_for_is_no_drift() -> None:
    def send(request: Request) -> Response:
        body = b'{"items": [{"id": 1, "at": "2024-01-05T00:00:00Z"}]}'
        return Response(200, Headers({"Content-Type": "application/json"}), body, request.full_url, request)

    before, now = (record(incremental(), {}, sends=send, resumes=resumes) for resumes in (20, 0))

    assert (len(before.interactions), len(now.interactions)) == (2, 1)
    assert drift(without_resumes(before, incremental(), {}), now) == []


def test_what_other_streams_ask_for_is_no_drift() -> None:
    before = record(Blog(), CONFIG, sends=Api().send)
    now = record(Blog(), CONFIG, streams=["posts"], sends=Api().send, resumes=0)

    assert drift(without_resumes(before, Blog(), CONFIG, streams=["posts"]), now) == []


class Pinging(Blog):
    def check(self, config: Mapping[str, Json]) -> None:  # noqa: ARG002
        outgoing()(Request("GET", f"{BASE}/ping"))


def test_a_sample_keeps_what_a_check_asks_for() -> None:
    recording = record(Pinging(), CONFIG, streams=["posts"], sends=Api(posts=10).send, sample=3)

    with Cassette(recording).playing():
        Pinging().check(CONFIG)


def test_what_cannot_be_replayed_is_compared_whole() -> None:
    before = record(Blog(), CONFIG, streams=["posts"], sends=Api().send, resumes=0)

    assert without_resumes(before, Blog(), CONFIG) == before


def test_a_missing_field_is_a_drift() -> None:
    before = record(Blog(), CONFIG, streams=["posts"], sends=Api(stars=5).send)

    found = drift(before, record(Blog(), CONFIG, streams=["posts"], sends=Api().send))

    assert found == ["GET /****/posts: field posts[].stars is missing"]


def projects() -> RestSource:
    """A source whose tasks are read for each project."""
    return RestSource(
        "https://api.test",
        resource("projects", "/projects", records_path="items", primary_key="id", paginator=SinglePage()),
        resource("tasks", "/projects/{projects.id}/tasks", records_path="items", paginator=SinglePage()),
    )


class Projects:
    """Six projects, of which the fourth has no owner, and tasks of which the API says more now than then."""

    def __init__(self, **fields: Json) -> None:
        self._fields = fields

    def send(self, request: Request) -> Response:
        ids = range(1, 7)
        items: list[Json] = [{"id": number, "owner": None if number == 4 else "ann"} for number in ids]
        if request.url.endswith("/tasks"):
            items = [{"id": number, **self._fields} for number in ids]
        headers = Headers({"Content-Type": "application/json"})
        return Response(200, headers, orjson.dumps({"items": items}), request.full_url, request)


@pytest.mark.parametrize(
    ("api", "lines"),
    [
        (Projects(), []),
        (Projects(stars=5), [f"GET /projects/{n}/tasks: field items[].stars is new (integer)" for n in (1, 2, 6)]),
    ],
)
def test_of_a_sampled_cassette_a_sample_is_compared(api: Projects, lines: list[str], tmp_path: Path) -> None:
    save(tmp_path / "cassette.yaml", record(projects(), {}, sends=Projects().send, sample=3))
    recording = load(tmp_path / "cassette.yaml")

    before = without_resumes(recording, projects(), {}, sample=recording.sample)
    now = record(projects(), {}, sends=api.send, resumes=0, sample=recording.sample)

    assert len(recording.interactions) == 1 + 3
    assert drift(before, now) == lines


def test_what_resumed_reads_need_whole_is_sampled_where_it_is_compared() -> None:
    items = [{"id": number, "at": f"2024-01-0{at}T00:00:00Z"} for number, at in enumerate((1, 2, 9, 3, 4), 1)]
    items[3]["owner"] = None

    def send(request: Request) -> Response:
        headers = Headers({"Content-Type": "application/json"})
        return Response(200, headers, orjson.dumps({"items": items}), request.full_url, request)

    recording = record(incremental(), {}, sends=send, sample=3)
    now = record(incremental(), {}, sends=send, resumes=0, sample=3)

    assert b"owner" in recording.interactions[0].content
    assert drift(without_resumes(recording, incremental(), {}, sample=3), now) == []
