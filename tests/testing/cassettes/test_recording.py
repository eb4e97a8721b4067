from collections.abc import Sequence

import pytest

from cdk import DatetimeCursor, Stream
from cdk.base.errors import CatalogError
from cdk.rest import Headers, PageNumber, Paginator, Request, Response, RestSource, SinglePage, resource
from cdk.testing import read
from cdk.testing.cassettes import Cassette, record
from cdk.testing.cassettes.drift import drift
from tests.testing.cassettes.blog import CONFIG, Api, Blog, Posts


def test_what_was_asked_before_is_not_asked_again_from_the_states() -> None:
    api = Api()

    recording = record(Blog(), CONFIG, sends=api.send)

    assert len(recording.interactions) == 1 + 9
    assert len(api.sent) == 2 + 9


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_request_that_fails_in_passing_is_sent_again(nth: int, status: int) -> None:
    items = resource(
        "items",
        "/items",
        records_path="items",
        primary_key="id",
        params={"since": "{window.start}"},
        cursor=DatetimeCursor("at", start="2024-01-01T00:00:00Z"),
        paginator=SinglePage(),
    )
    source, asked = RestSource("https://api.test", items), list[str]()

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


def test_a_missing_field_is_a_drift() -> None:
    before = record(Blog(), CONFIG, streams=["posts"], sends=Api(stars=5).send)

    found = drift(before, record(Blog(), CONFIG, streams=["posts"], sends=Api().send))

    assert found == ["GET /****/posts: field posts[].stars is missing"]
