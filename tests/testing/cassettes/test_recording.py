from collections.abc import Mapping, Sequence

import pytest

from cdk import DatetimeCursor, Json, Stream
from cdk.base.errors import CatalogError
from cdk.rest import Headers, PageNumber, Paginator, Request, Response, RestSource, SinglePage, resource
from cdk.rest.http.transport import outgoing
from cdk.testing import read
from cdk.testing.cassettes import Cassette, record
from cdk.testing.cassettes.drift import drift
from cdk.testing.cassettes.recording import without_resumes
from tests.testing.cassettes.blog import BASE, CONFIG, Api, Blog, Posts


def test_what_was_asked_before_is_not_asked_again_from_the_states() -> None:
    api = Api()

    recording = record(Blog(), CONFIG, sends=api.send)

    assert len(recording.interactions) == 1 + 9
    assert len(api.sent) == 2 + 9


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
