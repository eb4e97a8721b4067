"""What is noted of requests and pages while somebody looks on."""

import pytest

from cdk import Slice, Timeout
from cdk.rest import CursorToken, HttpStream, LinkHeader, Offset, PageNumber, Paginator, SinglePage
from cdk.rest.tracing import PageNote, Trace, explain_next, tracing
from cdk.testing import MockApi

LINK = {"Link": '</users?page=2>; rel="next"'}


class Users(HttpStream):
    url_base = "https://api.test"
    records_path = ("data", "users")

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/users"


def users(paginator: Paginator, api: MockApi) -> Users:
    stream = Users()
    stream.paginator, stream.transport, stream.sleep = paginator, api, lambda _: None
    return stream


@pytest.mark.parametrize(
    ("paginator", "body", "headers", "why"),
    [
        (PageNumber(size=1), {}, {}, "the page has 1 records, and a full one has 1"),
        (PageNumber(size=2), {}, {}, "the page has 1 records, and a full one has 2"),
        (PageNumber(), {}, {}, "the page has records, and neither a size nor a field says which is the last"),
        (Offset(1, more=["more"]), {"more": True}, {}, "more of the body says that there is more"),
        (Offset(1, more=["more"]), {}, {}, "more of the body says that there is no more"),
        (CursorToken("next", param="c"), {"next": "abc"}, {}, "next of the body names the next page"),
        (CursorToken("next", param="c"), {"next": ""}, {}, "next of the body is empty"),
        (CursorToken(header="X-Next", param="c"), {}, {}, "the header X-Next is empty"),
        (LinkHeader(), {}, LINK, 'the header Link has a rel="next"'),
        (LinkHeader(), {}, {}, 'the header Link has no rel="next"'),
        (SinglePage(), {}, {}, "SinglePage finds none"),
    ],
)
def test_a_page_says_what_it_held_and_why_there_is_a_next_one(
    paginator: Paginator, body: dict[str, object], headers: dict[str, str], why: str
) -> None:
    api = MockApi()
    api.get("/users").returns(json={"data": {"users": [{"id": 1}]}, **body}, headers=headers)

    with tracing() as trace:
        page = users(paginator, api).read_page(Slice(), None)

    (exchange,) = trace.exchanges
    assert trace.page == PageNote(("data", "users"), 1, 1, page.next, why, exchange.request)


def test_each_attempt_is_noted_with_its_response_or_error() -> None:
    api = MockApi()
    api.get("/users").raises(Timeout("no response in time")).returns(status=503).returns(json={"data": {"users": []}})

    with tracing() as trace:
        users(SinglePage(), api).read_page(Slice(), None)

    first, second, third = (exchange.outcome for exchange in trace.exchanges)
    request, seconds = trace.exchanges[-1].request, trace.exchanges[-1].seconds
    assert isinstance(first, Timeout)
    assert [str(second), str(third)] == [
        "<503 to GET https://api.test/users, 4 bytes>",
        "<200 to GET https://api.test/users, 21 bytes>",
    ]
    assert (request.method, seconds >= 0) == ("GET", True)


def test_what_was_taken_is_noted_anew_and_nothing_where_nobody_looks_on() -> None:
    api = MockApi()
    api.get("/users").returns(json={"data": {"users": []}})
    stream = users(SinglePage(), api)

    with tracing() as trace:
        stream.read_page(Slice(), None)
        taken = trace.drain()
    stream.read_page(Slice(), None)

    assert (len(taken.exchanges), taken.page is not None) == (1, True)
    assert trace == Trace()


def test_a_reason_is_that_of_one_page() -> None:
    with tracing() as trace:
        explain_next("the page has %s records", 0)
        trace.note(PageNote((), 0, 0, None, "there are no pages"))
        first = trace.page
        trace.note(PageNote((), 1, 1, None, "there are no pages"))

    assert first is not None
    assert trace.page is not None
    assert (first.why, trace.page.why) == ("the page has 0 records", "there are no pages")
