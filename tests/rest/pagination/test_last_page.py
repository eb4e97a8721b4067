"""Records that a read would leave out without a word: a wrong path of a token, a page size above the source's."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from cdk import ConfigError, DecodeError, FatalError, Json, PaginationLoop, Partition, Record, Slice, parent_partitions
from cdk.base.values import JsonValue
from cdk.rest import CursorToken, HttpStream, Offset, PageNumber, Paginator, Response, SinglePage
from cdk.rest.pagination.last_page import checking_pages_after_end
from cdk.testing import MockApi, ReadResult, Route, read


class Items(HttpStream):
    url_base = "https://api.test"
    records_path = ("data",)

    def __init__(self, paginator: Paginator, parts: Sequence[str] = ("a",)) -> None:
        super().__init__()
        self.paginator, self._parts = paginator, parts

    def partitions(self) -> Iterable[Partition]:
        return [Partition({"part": part}) for part in self._parts]

    def path(self, slice: Slice) -> str:
        return f"/{slice.partition['part']}"


class Children(Items):
    def partitions(self) -> Iterable[Partition]:
        parents = Items(CursorToken("nxt", param="after"), ["parents"])
        return parent_partitions(parents, part="id")


def of(paginator: Paginator, body: Mapping[str, Json], headers: Mapping[str, str] | None = None) -> ReadResult:
    """A read of one page with one record."""
    api = MockApi()
    api.get("/a").returns(json={"data": [{"id": 1}], **body}, headers=headers or {})
    result = read(Items(paginator), transport=api)
    assert result.error is None
    return result


LINK = {"Link": '<https://api.test/a?page=2>; rel="next"'}


@pytest.mark.parametrize(
    ("paginator", "body", "headers", "words"),
    [
        (CursorToken("nxt", param="c"), {"next": "b"}, {}, "no 'nxt' in the body, whose fields are 'data', 'next'"),
        (CursorToken("meta", "nxt"), {"meta": {"next": "b"}}, {}, "no 'nxt' in 'meta', whose fields are 'next' (is"),
        (CursorToken("next", param="c", more=["mor"]), {"next": "b", "more": True}, {}, "(is it 'more'?)"),
        (CursorToken(header="X-Nxt", param="c"), {}, {"X-Next": "b"}, "no header 'X-Nxt' (is it 'x-next'?)"),
        (PageNumber(more=["has_mor"]), {"has_more": True}, {}, "(is it 'has_more'?)"),
        (Offset(5, more="has_mor"), {"has_more": True}, {}, "(is it 'has_more'?)"),
        (SinglePage(), {}, LINK, 'a rel="next" in the header Link (is it `LinkHeader()`?)'),
        (PageNumber(size=500), {}, LINK, 'a rel="next" in the header Link'),
        (SinglePage(), {"next": "b"}, {}, "there is 'b' in next of the body"),
        (SinglePage(), {"meta": {"next_cursor": "b"}}, {}, "there is 'b' in meta > next_cursor of the body"),
        (SinglePage(), {"@odata.nextLink": "https://x"}, {}, "in @odata.nextLink of the body"),
        (SinglePage(), {"pageInfo": {"hasNextPage": True}}, {}, "there is True in pageInfo > hasNextPage of the body"),
        (SinglePage(), {"links": [{"rel": "self"}, {"rel": "next", "href": "x"}]}, {}, "in links > next of the body"),
        (SinglePage(), {}, {"Next-Page": "2"}, "there is '2' in the header next-page"),
        (SinglePage(), {}, {"X-Next-Cursor": "b"}, "there is 'b' in the header x-next-cursor"),
        (PageNumber(size=500), {"has_more": True}, {}, "there is True in has_more of the body"),
        (PageNumber(size=500), {"total": 1237}, {}, "there is 1237 in total of the body, and the page has 1 records"),
        (SinglePage(), {"meta": {"totalCount": "2"}}, {}, "there is 2 in meta > totalCount of the body"),
        (
            CursorToken("next", param="c"),
            {"next": None, "page_info": {"total_pages": 3}},
            {},
            "3 in page_info > total_",
        ),
        (Offset(5), {}, {"X-Total-Count": "40"}, "there is 40 in the header x-total-count, and the page has 1 records"),
        (SinglePage(), {"total_data": 30}, {}, "there is 30 in total_data of the body, and the page has 1 records"),
        (SinglePage(), {"dataCount": 30}, {}, "there is 30 in dataCount of the body"),
        (SinglePage(), {"next_batch": 10}, {}, "there is 10 in next_batch of the body"),
        (SinglePage(), {"NextToken": "b"}, {}, "there is 'b' in NextToken of the body"),
        (SinglePage(), {"TotalResults": 30}, {}, "there is 30 in TotalResults of the body"),
        (SinglePage(), {}, {"X-Total-Pages": "2"}, "there is 2 in the header x-total-pages"),
    ],
)
def test_an_only_page_without_the_field_that_names_the_next_is_warned_of(
    paginator: Paginator, body: Mapping[str, Json], headers: Mapping[str, str], words: str
) -> None:
    result = of(paginator, body, headers)

    (warning,) = result.warnings
    assert warning.startswith("items: GET https://api.test/a")
    assert words in warning
    assert warning in result.logs


@pytest.mark.parametrize(
    ("paginator", "body"),
    [
        (CursorToken("next", param="c"), {"next": None}),
        (CursorToken("next", param="c"), {"next": ""}),
        (CursorToken("meta", "next"), {"meta": None}),
        (CursorToken("nxt", param="c", optional=True), {}),
        (CursorToken("next", more=["more"]), {"more": False}),
        (PageNumber(more=["more"]), {"more": False}),
        (PageNumber(size=500), {}),
        (SinglePage(), {"next": None, "meta": {"next_cursor": "", "has_more": False}, "links": [{"rel": "self"}]}),
        (SinglePage(), {"next_run_at": "2024-01-01"}),
        (SinglePage(), {"total": 1, "total_pages": 1, "pages": [2, 3], "subtotal": 7, "page": {"total": None}}),
        (SinglePage(), {"total_users": 30, "count": 30, "data_size": 30, "numbers": [1], "total": 1}),
        (SinglePage(), {"total": "9" * 5000}),
        (PageNumber(size=500), {"meta": {"total": True, "total_count": "all", "total_pages": "01"}}),
    ],
)
def test_a_page_that_says_it_is_the_last_is_not_warned_of(paginator: Paginator, body: Mapping[str, Json]) -> None:
    assert of(paginator, body).warnings == []


@pytest.mark.parametrize("name", ["limit", "per_page", "pageSize"])
@pytest.mark.parametrize("part", ["query", "json"])
@pytest.mark.parametrize(("asked", "body", "warns"), [(2, {}, True), (3, {}, False), (2, {"total": 2}, False)])
def test_an_only_page_with_as_many_records_as_were_asked_for_is_warned_of(
    name: str, part: str, asked: int, body: Mapping[str, Json], *, warns: bool
) -> None:
    class Limited(Items):
        http_method = "GET" if part == "query" else "POST"

        def params(self, _: Slice) -> Mapping[str, JsonValue]:
            return {name: asked} if part == "query" else {}

        def body_json(self, _: Slice) -> JsonValue:
            return {name: asked} if part == "json" else None

    api = MockApi()
    api.add(Route(Limited.http_method, "/a")).returns(json={"data": [{"id": 1}, {"id": 2}], **body})

    warnings = read(Limited(SinglePage()), transport=api).warnings

    words = f"there is a full page: `{name}` requests 2 records, and as many were returned, so there are probably more"
    assert [words in warning for warning in warnings] == [True] * warns


def test_a_source_that_leaves_the_token_out_of_last_pages_is_not_warned_of() -> None:
    api = MockApi()
    api.get("/a").returns(json={"data": [{"id": 1}]})
    api.get("/b").returns(json={"data": [{"id": 2}], "next": "x"}).returns(json={"data": [{"id": 3}]})
    stream = Items(CursorToken("next", param="after"), ["a", "b"])

    first = read(stream, transport=api, every_state=True)
    again = read(Items(stream.paginator, ["a", "b", "c"]), state=first.state_messages, transport=_only("/c"))

    assert ([record["id"] for record in first.records], first.warnings) == ([1, 2, 3], [])
    assert ([record["id"] for record in again.records], again.warnings) == ([1], [])


def _only(path: str) -> MockApi:
    api = MockApi()
    api.get(path).returns(json={"data": [{"id": 1}]})
    return api


def test_a_parent_whose_token_has_a_wrong_path_is_warned_of_once() -> None:
    api = MockApi()
    api.get("/parents").returns(json={"data": [{"id": "x"}], "next": "b"})
    api.get("/x").returns(json={"data": [{"id": 1}]})

    (warning,) = read(Children(SinglePage()), transport=api).warnings

    assert "GET https://api.test/parents was treated as the only page" in warning


def test_a_flag_that_says_more_and_no_token_is_an_error() -> None:
    api = MockApi()
    api.get("/a").returns(json={"data": [{"id": 1}], "more": True, "next": "b"})

    error = read(Items(CursorToken("nxt", param="c", more=["more"])), transport=api).error

    assert isinstance(error, DecodeError)
    assert "more of the body says that there is more, but nxt of the body is empty: there is no 'nxt'" in str(error)


class Counted(Items):
    """Its pages are counted, and it leaves out what is no record."""

    def parse(self, response: Response, slice: Slice) -> Sequence[Record]:
        return [record for record in super().parse(response, slice) if record["id"] != 3]


def counting(total: int, says: Mapping[str, Json], header: Mapping[str, str] | None = None) -> MockApi:
    """An API of `total` records in pages of two, each of which says how many there are."""
    api, rows = MockApi(), [{"id": number} for number in range(total)]
    for page in range(1, 9):
        api.get("/a", {"page": page}).returns(
            json={"data": rows[(page - 1) * 2 : page * 2], **says}, headers=header or {}
        )
    return api


@pytest.mark.parametrize(
    ("says", "header", "words"),
    [
        ({"total": 7}, {}, "there is 7 in total of the body, and the 3 pages have 5 records"),
        ({"meta": {"total_pages": 4}}, {}, "there is 4 in meta > total_pages of the body, and the 3 pages have"),
        ({}, {"X-Total-Count": "7"}, "there is 7 in the header x-total-count, and the 3 pages have 5 records"),
    ],
)
def test_pages_that_are_fewer_than_the_last_one_counts_are_warned_of(
    says: Mapping[str, Json], header: Mapping[str, str], words: str
) -> None:
    result = read(Items(PageNumber(start=2, size=2)), transport=counting(7, says, header))

    (warning,) = result.warnings
    assert warning.startswith("items: GET https://api.test/a?page=4 was treated as the last page of its slice")
    assert words in warning
    assert "unless that total counts records that were not requested, such as those that a filter excludes" in warning
    assert "after `spark-cdk state reset` of one with a cursor" in warning


@pytest.mark.parametrize("total", range(9))
@pytest.mark.parametrize("name", ["total", "total_pages"])
def test_pages_that_are_as_many_as_they_say_are_not_warned_of(total: int, name: str) -> None:
    says = {name: total if name == "total" else (total + 1) // 2}

    result = read(Items(PageNumber(size=2)), transport=counting(total, says))

    assert (len(result.records), result.warnings) == (total, [])


def signs(total: int, page: int, last: int) -> Mapping[str, Mapping[str, Json]]:
    """What a page may say of those that follow; the first four say the end."""
    return {
        "next": {"next": page + 1 if page < last else None},
        "flag": {"meta": {"has_more": page < last}},
        "total": {"total": total},
        "pages": {"total_pages": last},
        "more records": {"total": total + 9, "next": None},
        "more pages": {"next": page + 1},
        "nothing": {},
    }


@pytest.mark.parametrize("total", range(1, 9))
@pytest.mark.parametrize("size", [2, None])
@pytest.mark.parametrize("sign", signs(0, 0, 0))
def test_a_last_page_that_comes_again_is_the_end_where_it_says_so(sign: str, size: int | None, total: int) -> None:
    api, rows, last = MockApi(), [{"id": number} for number in range(total)], (total + 1) // 2
    for asked in range(1, 9):
        page = min(asked, last)
        body = {"data": rows[(page - 1) * 2 : page * 2], **signs(total, page, last)[sign]}
        api.get("/a", {"page": asked}).returns(json=body)

    result = read(Items(PageNumber(size=size)), transport=api)

    ends = sign in list(signs(0, 0, 0))[:4]
    is_short = size is not None and total % 2 == 1
    assert isinstance(result.error, PaginationLoop) is not (ends or is_short)
    if ends:
        assert [record["id"] for record in result.records] == list(range(total))


class CountedTwice(Items):
    """Counts what a page has before it leaves some out."""

    def parse(self, response: Response, slice: Slice) -> Sequence[Record]:
        count = len(super().parse(response, slice))
        return [{**record, "of": count} for record in super().parse(response, slice) if record["id"] != 3]


@pytest.mark.parametrize("kind", [Counted, CountedTwice])
def test_what_a_parse_leaves_out_ends_no_pages_and_is_not_warned_of(kind: type[Items]) -> None:
    result = read(kind(PageNumber(size=2)), transport=counting(7, {"total": 7}))

    assert (len(result.records), result.warnings) == (6, [])


def test_a_read_that_goes_on_at_a_page_does_not_count_those_before_it() -> None:
    cut = MockApi()
    cut.get("/a", {"page": 1}).returns(json={"data": [{"id": 0}, {"id": 1}], "total": 7})
    cut.get("/a", {"page": 2}).returns(status=404)
    first = read(Items(PageNumber(size=2)), transport=cut)

    result = read(Items(PageNumber(size=2)), state=first.state_messages, transport=counting(7, {"total": 7}))

    assert (len(first.records), len(result.records), result.warnings) == (2, 5, [])


@pytest.mark.parametrize("names", [(["meta", "next"],), ("meta", 1)])
def test_a_path_that_is_none_is_named_when_it_is_declared(names: Sequence[Json]) -> None:
    with pytest.raises(ConfigError, match=r"CursorToken: found .*, expected the names of its path"):
        CursorToken(*names, param="c")


def capped(cap: int, total: int = 7) -> MockApi:
    """An API that gives `cap` records at most, whatever it is asked for."""
    api = MockApi()
    rows = [{"id": number} for number in range(total)]
    for page in range(1, 10):
        api.get("/a", {"page": page}).returns(json={"data": rows[(page - 1) * cap : page * cap]})
    for offset in range(total + 1):
        api.get("/a", {"offset": offset}).returns(json={"data": rows[offset : offset + cap]})
    return api


@pytest.mark.parametrize("paginator", [PageNumber(size=100), Offset(100)])
def test_a_page_behind_the_last_one_that_has_records_is_an_error_where_somebody_looks(paginator: Paginator) -> None:
    unseen = read(Items(paginator), transport=capped(3))
    with checking_pages_after_end():
        seen = read(Items(paginator), transport=capped(3))

    assert (len(unseen.records), unseen.error) == (3, None)
    assert isinstance(seen.error, FatalError)
    assert "returned 3 records, although the page before it, with 3, was treated as the last one" in str(seen.error)


def repeated() -> MockApi:
    api = MockApi()
    api.get("/a").returns(json={"data": [{"id": 1}]})
    return api


def refused() -> MockApi:
    api = repeated()
    api.get("/a", {"page": 2}).returns(status=404)
    return api


@pytest.mark.parametrize("api", [lambda: capped(100), repeated, refused], ids=["empty", "repeated", "refused"])
def test_nothing_behind_the_last_page_is_all_right(api: Callable[[], MockApi]) -> None:
    asked = api()
    with checking_pages_after_end():
        result = read(Items(PageNumber(size=100)), transport=asked)

    assert result.error is None
    assert len(asked.requests) == 2


def test_only_behind_the_fullest_last_page_somebody_looks() -> None:
    api = MockApi()
    for part, count in (("a", 2), ("b", 1), ("c", 3)):
        api.get(f"/{part}").returns(json={"data": [{"id": number} for number in range(count)]})
    with checking_pages_after_end():
        read(Items(PageNumber(size=100), ["a", "b", "c"]), transport=api)

    assert [request.params["page"] for request in api.requests] == [1, 2, 1, 1, 2]
