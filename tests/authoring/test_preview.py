"""Previews of streams: the pages, what was sent for each, and errors."""

from collections.abc import Iterator
from itertools import islice

import pytest
from msgspec.structs import astuple

from cdk import Item, Page, Partition, Slice, Stream, StreamState, parent_partitions
from cdk.authoring.preview import preview_pages
from cdk.base.logs import warn
from cdk.rest import HttpStream, PageNumber
from cdk.testing import MockApi
from tests.declarative.manifests import paginator, source
from tests.samples import Comments, Users

CURSOR = {"type": "CursorPagination", "cursor_value": "{{ response.next }}", "stop_condition": "{{ response.last }}"}
FILTER = {"record_filter": {"type": "RecordFilter", "condition": "{{ record.id < 3 }}"}}


def items(api: MockApi) -> Stream:
    (stream,) = source(api, selector=FILTER, paginator=paginator(CURSOR)).open({})
    return stream


def test_a_stream_without_requests_shows_its_pages_and_where_a_read_resumes() -> None:
    pages = list(islice(preview_pages(Users(), StreamState()), 2))

    assert [(len(page.records), page.next, page.exchanges) for page in pages] == [
        (3, {"page": 1}, []),
        (3, {"page": 2}, []),
    ]


def test_the_end_of_a_slice_is_no_page_of_its_own() -> None:
    pages = list(preview_pages(Users(), StreamState()))

    assert (len(pages), pages[-1].next, pages[-1].error) == (5, None, None)


def test_slices_are_shown_one_after_the_other() -> None:
    slices = dict.fromkeys(page.slice for page in preview_pages(Comments(), StreamState()))

    assert len(slices) > 1


def test_a_manifest_says_what_was_extracted_selected_and_why_the_pages_end() -> None:
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}, {"id": 2}], "next": "b"})
    api.get("/items", params={"page": "b"}).returns(json={"data": [{"id": 2}, {"id": 3}], "next": "c", "last": True})

    pages = list(preview_pages(items(api), StreamState()))

    assert [None if page.note is None else astuple(page.note)[:5] for page in pages] == [
        (("data",), 2, 2, "b", "cursor_value names the next page"),
        (("data",), 2, 1, None, "stop_condition holds"),
    ]
    assert [[dict(record) for record in page.records] for page in pages] == [[{"id": 1}, {"id": 2}], [{"id": 2}]]


def test_an_error_is_the_last_page_and_has_what_was_sent_until_then() -> None:
    api = MockApi()
    api.get("/items").returns(status=403, json={"message": "not you"})

    (page,) = preview_pages(items(api), StreamState())

    assert "not you" in str(page.error)
    assert len(page.exchanges) == 1


class Failing(Stream):
    def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002
        yield from [{"id": 1}] * 1000
        raise ZeroDivisionError


def test_a_mistake_in_the_authors_code_is_shown_behind_what_was_read() -> None:
    first, last = preview_pages(Failing(), StreamState())

    assert (len(first.records), type(last.error)) == (1000, ZeroDivisionError)


class Teams(HttpStream):
    url_base = "https://api.test"

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/teams"


class Members(Teams):
    def partitions(self) -> Iterator[Partition]:
        teams = Teams()
        teams.transport = self.transport
        return parent_partitions(teams, team="id")

    def path(self, slice: Slice) -> str:
        return f"/teams/{slice.partition['team']}/members"


def test_what_was_sent_to_find_a_slice_stands_with_its_first_page() -> None:
    api = MockApi()
    api.get("/teams").returns(json=[{"id": 1}, {"id": 2}])
    api.get("/teams/*/members").returns(json=[{"id": 7}])
    members = Members()
    members.transport = api

    first, second = preview_pages(members, StreamState())

    assert [str(exchange.request) for exchange in first.planning] == ["GET https://api.test/teams"]
    assert [str(exchange.request) for exchange in first.exchanges] == ["GET https://api.test/teams/1/members"]
    assert (list(second.planning), second.slice) == ([], '{"team":2}')


def test_a_warning_is_shown_with_its_page_and_not_logged_as_well(caplog: pytest.LogCaptureFixture) -> None:
    class Doubtful(Stream):
        def read_records(self, slice: Slice) -> Iterator[Item]:  # noqa: ARG002 - of all streams
            warn("doubtful: look at this")
            yield Page([{"id": 1}], None)

    (page,) = preview_pages(Doubtful(), StreamState())

    assert (page.warning, caplog.messages) == ("doubtful: look at this", [])


def test_a_child_whose_parents_bring_nothing_says_so() -> None:
    api = MockApi()
    api.get("/teams").returns(json=[])
    members = Members()
    members.transport = api

    (page,) = preview_pages(members, StreamState())

    assert [str(exchange.request) for exchange in page.planning] == ["GET https://api.test/teams"]
    assert page.warning == (
        "members: there is nothing to read: its parents or lists return no partition, or its state covers everything"
    )


class Numbered(Teams):
    paginator = PageNumber(size=100)


def test_a_preview_looks_behind_the_last_page_and_shows_doubts() -> None:
    api = MockApi()
    api.get("/teams").returns(json=[{"id": 1}], headers={"Link": '</teams?page=2>; rel="next"'}).returns(json=[])
    numbered = Numbered()
    numbered.transport = api

    (page,) = preview_pages(numbered, StreamState())

    assert 'a rel="next" in the header Link' in page.warning
    assert page.note is not None
    assert page.note.why == "the page has 1 records, and the one after it has none"
