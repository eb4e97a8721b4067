import itertools
import logging
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark import cloudpickle

from cdk import (
    Checkpoint,
    ConfigError,
    DecodeError,
    Done,
    FatalError,
    Forbidden,
    Json,
    NotFound,
    Page,
    PaginationLoop,
    Partition,
    Record,
    Slice,
    StaleToken,
    Start,
    TransientError,
    parent_partitions,
)
from cdk.base.records.raw_json_lines import JsonLines
from cdk.base.run import one_run
from cdk.rest import (
    Action,
    ApiKey,
    Authenticator,
    Budget,
    CachedTransport,
    CsvRows,
    CursorToken,
    Decoder,
    Headers,
    HttpErrorHandler,
    HttpStream,
    JsonDocument,
    Jsonl,
    LinkHeader,
    OAuth2,
    Offset,
    PageNumber,
    Paginator,
    Request,
    Response,
    SinglePage,
)
from cdk.rest.errors.outcome import Outcome
from cdk.streams.read_slice import read_slice
from cdk.testing.mock_api import MockApi
from tests.rest.api import Time


class Users(HttpStream):
    records_path: Sequence[str] = ("data",)
    paginator: Paginator = PageNumber(size=2, size_param="per_page")

    @property
    def url_base(self) -> str:
        return str(self.config["url"])

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/users"

    def params(self, slice: Slice) -> Mapping[str, Json]:  # noqa: ARG002
        return {"active": True}

    def headers(self, slice: Slice) -> Mapping[str, str]:  # noqa: ARG002
        return {"X-Version": "2"}

    def authenticator(self) -> Authenticator | None:
        return ApiKey("abcd", name="key", send_in="request_parameter")


class Posts(Users):
    paginator = CursorToken("next", param="after")

    def partitions(self) -> Iterable[Partition]:
        parents = Users(self.config)
        parents.transport, parents.use_cache = self.transport, True
        return parent_partitions(parents, user="id")

    def path(self, slice: Slice) -> str:
        return f"users/{slice.partition['user']}/posts"


def users(api: MockApi, kind: type[HttpStream] = Users) -> Any:
    stream = kind({"url": "https://api.test/v1/"})
    stream.transport = api
    stream.sleep = Time().sleep
    return stream


def three_pages() -> MockApi:
    api = MockApi()
    for page in (1, 2, 3):
        rows = [{"id": page * 10 + i} for i in range(2 if page < 3 else 1)]
        api.get("/v1/users", params={"page": page, "per_page": 2}).returns(json={"data": rows})
    return api


def ids(pages: Iterable[Any]) -> list[Any]:
    return [record["id"] for page in pages for record in page.records]


def shipped(stream: HttpStream) -> HttpStream:
    """`stream` as a Spark task gets it."""
    packed: bytes = cloudpickle.dumps(stream)  # type: ignore[no-untyped-call] # not typed there
    unpacked: HttpStream = pickle.loads(packed)  # noqa: S301 - made here
    return unpacked


def at(token: Mapping[str, Json]) -> Slice:
    return Slice(start=Checkpoint(token))


def sized(page: int) -> Checkpoint:
    return Checkpoint({"page": page, "page_size": 2})


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2), (5, 1), (1, 5)])
@pytest.mark.parametrize("cut", [1, 2])
def test_a_cut_read_resumed_with_another_page_size_reads_every_record(
    sizes: tuple[int, int], cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    api = MockApi()

    def answer(request: Request) -> Response:
        begin, size = (request.params["page"] - 1) * request.params["per_page"], request.params["per_page"]
        body = {"data": [{"id": i} for i in range(20)][begin : begin + size]}
        return Response(200, Headers({}), orjson.dumps(body), request.full_url, request)

    api.get("/v1/users").answers(answer)
    stream = users(api)
    stream.paginator = PageNumber(size=sizes[0], size_param="per_page")
    first = list(itertools.islice(read_slice(stream, Slice()), cut))
    again = users(api)
    again.paginator = PageNumber(size=sizes[1], size_param="per_page")

    with caplog.at_level(logging.WARNING, logger="cdk"):
        second = list(read_slice(again, Slice(start=first[-1].position or Start())))

    assert {*ids(first), *ids(second)} == set(range(20))
    assert f"'page_size': {sizes[0]}" in caplog.text


def test_a_stream_is_read_page_by_page() -> None:
    api = three_pages()

    pages = list(read_slice(users(api), Slice()))

    assert ids(pages) == [10, 11, 20, 21, 30]
    assert [page.position for page in pages if page.records] == [sized(2), sized(3), None]
    assert pages[-1].position == Done()
    assert api.requests[0].full_url == "https://api.test/v1/users?active=true&per_page=2&page=1&key=abcd"
    assert api.requests[0].headers == {"X-Version": "2"}


def test_the_list_of_the_body_is_handed_on_as_it_is() -> None:
    rows = [{"id": 1}]
    seen: list[Response] = []

    class Looking(Users):
        def parse(self, response: Response, slice: Slice) -> Sequence[Record]:
            seen.append(response)
            return super().parse(response, slice)

    api = MockApi()
    api.get("/v1/users").returns(json={"data": rows})

    page = users(api, Looking).read_page(Slice(), None)

    assert page.records is seen[0].json()["data"]


@pytest.mark.parametrize("paginator", [PageNumber(size=2, size_param="per_page"), Offset(2), LinkHeader()])
def test_parse_may_yield_the_records_of_a_page(paginator: Paginator) -> None:
    class Yielding(Users):
        def parse(self, response: Response, slice: Slice) -> Iterator[Record]:  # type: ignore[override] # noqa: ARG002
            yield from response.json()["data"]

    Yielding.paginator = paginator
    api = MockApi()
    route = api.get("/v1/users")
    for page in ([1, 2], [3], []):
        link = {"Link": f'<https://api.test/v1/users?page={page[-1]}>; rel="next"'} if page else {}
        route.returns(json={"data": [{"id": n} for n in page]}, headers=link)

    assert ids(read_slice(users(api, Yielding), Slice())) == [1, 2, 3]


@pytest.mark.parametrize(("given", "kind"), [(None, "NoneType"), ({"id": 1}, "dict"), ("id", "str"), (b"{}", "bytes")])
def test_what_are_no_records_of_a_page_is_an_error_that_names_parse(given: object, kind: str) -> None:
    class Wrong(Users):
        def parse(self, response: Response, slice: Slice) -> Sequence[Record]:  # noqa: ARG002
            return given  # type: ignore[return-value] # as authors write it, without types

    api = MockApi()
    api.get("/v1/users").returns(json={"data": [{"id": 1}]})

    with pytest.raises(FatalError, match=f"the records that `parse` returned are a {kind}, expected a list"):
        list(read_slice(users(api, Wrong), Slice()))


def test_values_that_are_no_records_are_an_error_also_where_pages_are_numbered() -> None:
    class Numbers(Users):
        paginator = PageNumber(size=2)

        def parse(self, response: Response, slice: Slice) -> Sequence[Record]:  # noqa: ARG002
            return response.json()["data"]  # type: ignore[no-any-return] # as authors write it, without types

    api = MockApi()
    api.get("/v1/users").returns(json={"data": [1, 2]}).returns(json={"data": [3]})

    with pytest.raises(FatalError, match="record 0 of a page is a int, expected a JSON object"):
        list(read_slice(users(api, Numbers), Slice()))


def test_records_that_nobody_looks_at_are_not_decoded() -> None:
    api = MockApi()
    api.get("/v1/users").returns(json={"data": [{"id": 1}, {"id": 2}]})

    page = users(api).read_page(Slice(), None)

    assert isinstance(page.records, JsonLines)
    assert page.records.lines == b'{"id":1}\n{"id":2}'
    assert page.next == {"page": 2, "page_size": 2}


def test_a_read_goes_on_at_its_saved_page() -> None:
    assert ids(read_slice(users(three_pages()), at({"page": 3}))) == [30]


@pytest.mark.parametrize("status", [400, 404, 410, 422])
def test_a_saved_token_that_is_refused_is_stale(status: int) -> None:
    api = three_pages()
    api.get("/v1/users", params={"page": 9}).returns(status=status)

    with pytest.raises(StaleToken, match=rf"page=9.* answered {status}"):
        users(api).read_page(at({"page": 9}), {"page": 9})
    assert ids(read_slice(users(api), at({"page": 9}))) == [10, 11, 20, 21, 30]


def test_a_saved_token_that_is_refused_is_stale_even_if_the_status_is_ignored() -> None:
    class Lenient(Users):
        error_handler = HttpErrorHandler({404: Action.IGNORE})

    api = three_pages()
    api.get("/v1/users", params={"page": 9}).returns(status=404)

    assert ids(read_slice(users(api, Lenient), at({"page": 9}))) == [10, 11, 20, 21, 30]


def test_a_refusal_that_has_nothing_to_do_with_the_token_is_none() -> None:
    api = three_pages()
    api.get("/v1/users", params={"page": 2, "per_page": 2}).returns(status=404)

    with pytest.raises(NotFound):
        list(read_slice(users(api), Slice()))
    with pytest.raises(NotFound):
        users(api).read_page(at({"page": 1}), {"page": 2})
    api.get("/v1/users", params={"page": 9}).returns(status=403)
    with pytest.raises(Forbidden):
        list(read_slice(users(api), at({"page": 9})))


@pytest.mark.parametrize("token", [{"url": "https://old.test/v1/users?page=2"}, {"page": 2}])
def test_a_saved_token_that_no_longer_fits_is_stale(token: Mapping[str, Json]) -> None:
    class Linked(Users):
        paginator = LinkHeader()

    api = MockApi()
    api.get("/v1/users").returns(json={"data": [{"id": 1}]})

    assert ids(read_slice(users(api, Linked), at(token))) == [1]
    assert len(api.requests) == 1


class Stripped(Users):
    def parse(self, response: Response, slice: Slice) -> Sequence[Record]:
        return [{"kind": "user"} for _ in super().parse(response, slice)]


class Flagged(Users):
    paginator = PageNumber(more=["more"])


class Open(Users):
    paginator = PageNumber()


class Offsets(Users):
    paginator = Offset(2)


@pytest.mark.parametrize("kind", [Users, Open, Flagged, Offsets, Stripped])
def test_a_page_that_is_the_one_before_is_an_error(kind: type[Users]) -> None:
    api = MockApi()
    route = api.get("/v1/users")
    for page in ([1, 2], [1, 2], [3, 4], []):
        route.returns(json={"data": [{"id": n} for n in page], "more": page != []})

    with pytest.raises(PaginationLoop, match="2 pages in a row are the same"):
        list(read_slice(users(api, kind), Slice()))


@pytest.mark.parametrize("kind", [Users, Open, Flagged, Offsets, Stripped])
def test_pages_that_differ_are_read_to_their_end(kind: type[Users]) -> None:
    api = MockApi()
    route = api.get("/v1/users")
    for page in ([1, 2], [3, 4], [1, 2], []):
        route.returns(json={"data": [{"id": n} for n in page], "more": page != []})

    assert sum(len(page.records) for page in read_slice(users(api, kind), Slice())) == 6


def test_empty_pages_may_be_the_same() -> None:
    api = MockApi()
    route = api.get("/v1/users")
    for page in ([], [], [], [1]):
        route.returns(json={"data": [{"id": n} for n in page], "more": page == []})

    assert ids(read_slice(users(api, Flagged), Slice())) == [1]


def test_an_ignored_answer_is_an_empty_last_page() -> None:
    class Lenient(Users):
        error_handler = HttpErrorHandler({403: Action.IGNORE})

    api = MockApi()
    api.get("/v1/users").returns(status=403)

    assert users(api, Lenient).read_page(Slice(), None) == Page((), None)


@pytest.mark.parametrize("decoder", [JsonDocument(), Jsonl(), CsvRows()])
def test_a_304_is_an_empty_page_only_where_a_condition_was_sent(decoder: Decoder) -> None:
    class Conditional(Users):
        def headers(self, slice: Slice) -> Mapping[str, str]:  # noqa: ARG002
            return {"If-None-Match": '"a"'}

    api = MockApi()
    api.get("/v1/users").returns(status=304, body=b"")
    asked, unasked = users(api, Conditional), users(api)
    asked.decoder = unasked.decoder = decoder

    assert asked.read_page(Slice(), None) == Page((), None)
    with pytest.raises(FatalError, match="answered 304 Not Modified; the request had no validators"):
        unasked.read_page(Slice(), None)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
def test_a_redirect_that_leads_nowhere_is_no_end_of_the_pages(status: int) -> None:
    class Trusting(Users):
        error_handler = HttpErrorHandler({status: Action.SUCCESS})

    api = MockApi()
    route = api.get("/v1/users")
    for _ in range(2):
        route.returns(json={"data": [{"id": 1}, {"id": 2}]}).returns(status=status, json={"data": []})

    with pytest.raises(
        FatalError, match=f"page=2.* answered {status} .*; the redirect cannot be followed: check the URL"
    ):
        list(read_slice(users(api), Slice()))
    assert ids(read_slice(users(api, Trusting), Slice())) == [1, 2]


def test_an_answer_that_has_no_content_has_no_records() -> None:
    api = MockApi()
    api.get("/v1/users").returns(status=204)

    assert users(api).read_page(Slice(), None) == Page((), None)


def test_a_page_that_names_itself_as_the_next_is_an_error() -> None:
    class Looping(Users):
        paginator = CursorToken("next", param="after")

    api = MockApi()
    api.get("/v1/users").returns(json={"data": [{"id": 1}], "next": "a"})

    with pytest.raises(PaginationLoop, match=r"\{'cursor': 'a'\}"):
        list(read_slice(users(api, Looping), Slice()))

    assert len(api.requests) == 2


def test_a_link_with_the_key_is_followed_and_saved_without_it() -> None:
    class Linked(Users):
        paginator = LinkHeader()

    api = MockApi()
    link = {"Link": '<https://api.test/v1/users?page=2&key=abcd>; rel="next"'}
    api.get("/v1/users").returns(json={"data": [{"id": 1}]}, headers=link).returns(json={"data": [{"id": 2}]})

    pages = list(read_slice(users(api, Linked), Slice()))

    assert pages[0].position == Checkpoint({"url": "https://api.test/v1/users?page=2"})
    assert api.requests[1].full_url == "https://api.test/v1/users?page=2&key=abcd"


def test_a_search_is_posted() -> None:
    class Search(Users):
        http_method = "POST"
        paginator = SinglePage()

        def body_json(self, slice: Slice) -> Json:  # noqa: ARG002
            return {"filter": "x"}

    api = MockApi()
    api.post("/v1/users").returns(json={"data": []})

    users(api, Search).read_page(Slice(), None)

    assert api.requests[0].body == b'{"filter":"x"}'
    assert api.requests[0].headers == {"Content-Type": "application/json", "X-Version": "2"}


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://api.test", "users", "https://api.test/users"),
        ("https://api.test/v1/", "/users/", "https://api.test/v1/users/"),
        ("https://api.test/v1", "", "https://api.test/v1"),
        ("https://api.test/v1", "https://files.test/a", "https://files.test/a"),
    ],
)
def test_a_path_comes_behind_the_base(base: str, path: str, url: str) -> None:
    class Located(HttpStream):
        url_base = base

        def path(self, slice: Slice) -> str:  # noqa: ARG002
            return path

    assert Located().request(Slice()).url == url


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("paginator", None, r"found None, expected an object such as `LinkHeader\(\)`, or `SinglePage\(\)`"),
        ("paginator", LinkHeader, r"found the class LinkHeader, expected an object such as `LinkHeader\(\)`"),
        ("paginator", "next", "found 'next', expected an object such as"),
        ("paginator", lambda _: LinkHeader(), "found a function, .*; put `@property` before the method"),
        ("decoder", "csv", r"found 'csv', expected an object such as `Jsonl\(\)` or `CsvRows\(\)`"),
        ("decoder", Jsonl, "found the class Jsonl, expected an object such as"),
        ("error_handler", None, r"found None, expected an object such as `HttpErrorHandler\(\)`"),
        ("error_handler", HttpErrorHandler, "found the class HttpErrorHandler, expected an object"),
        ("budget", 10, r"found 10, expected a budget such as `Budget\(calls=10\)`, or None"),
        ("records_path", 3, "found 3, expected the names on the way to the records"),
        ("url_base", "api.test", "found 'api.test', expected a URL that begins with `https://` or `http://`"),
        ("url_base", None, "found None, expected a URL that begins with"),
        ("url_base", "ann:s3cret@api.test/?key=s3cret", r"found 'api\.test/\?key=\*\*\*\*', expected a URL"),
        ("cursor", "at", "found 'at', expected a cursor such as"),
    ],
)
@pytest.mark.parametrize("assigned", ["class", "init"])
def test_an_attribute_of_another_type_is_refused_before_the_first_request(
    name: str, value: object, said: str, *, assigned: str
) -> None:
    def init(self: Users) -> None:
        vars(self)[name] = value

    names = {name: value} if assigned == "class" else {"__init__": init}
    with pytest.raises(ConfigError, match=rf"^{__name__}\.Odd\.{name}: {said}") as error:
        type("Odd", (Users,), {**names, "__module__": __name__})()

    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("base", "path", "said"),
    [
        (
            "{sub}.api.test",
            "/users",
            "found '{sub}.api.test', expected a URL that begins with `https://` or `http://`$",
        ),
        ("//api.test", "users", "found '//api.test', expected a URL"),
        ("", "/users", "found '', expected a URL .*; or return one from `path`, which is '/users'"),
    ],
)
def test_a_url_without_a_scheme_is_refused_also_where_it_is_computed(base: str, path: str, said: str) -> None:
    class Odd(Users):
        @property
        def url_base(self) -> str:
            return base

        def path(self, slice: Slice) -> str:  # noqa: ARG002
            return path

    with pytest.raises(ConfigError, match=rf"Odd\.url_base: {said}"):
        Odd().request(Slice())


@pytest.mark.parametrize(
    ("value", "shown"), [("s3cret", "a str"), (ApiKey, "the class ApiKey"), ({"token": "s3cret"}, "a dict")]
)
def test_what_is_no_authenticator_is_refused_with_its_line_and_not_shown(value: object, shown: str) -> None:
    class Odd(Users):
        def authenticator(self) -> Any:
            return value

    odd, api = Odd(), MockApi()
    odd.transport = api
    with pytest.raises(ConfigError, match=rf"Odd\.authenticator: found {shown}, expected an authenticator") as error:
        list(read_slice(odd, Slice()))

    assert f"{Path(__file__).name}:" in str(error.value)
    assert ("s3cret" in str(error.value), list(api.requests)) == (False, [])


@pytest.mark.parametrize(
    ("method", "value", "problem"),
    [
        ("params", None, "found None, expected the parameters by name"),
        ("headers", "s3cret", "found a str, expected the headers by name"),
        ("path", None, "found None, expected the path as a string"),
    ],
)
def test_what_cannot_be_part_of_a_request_is_refused_with_its_line(method: str, value: object, problem: str) -> None:
    def written(_self: Users, _slice: Slice) -> object:
        return value

    written.__name__ = method
    odd = type("Odd", (Users,), {method: written})({"url": "https://api.test"})
    odd.transport = MockApi()
    with pytest.raises(ConfigError, match=rf"Odd\.{method}: {problem}.*{Path(__file__).name}:"):
        list(read_slice(odd, Slice()))


def test_a_parent_is_fetched_once_for_several_children() -> None:
    api = three_pages()
    api.get("/v1/users/*/posts").returns(json={"data": [], "next": None})
    first, second = users(api, Posts), users(api, Posts)

    partitions = [*first.partitions(), *second.partitions()]

    assert [p["user"] for p in partitions] == [10, 11, 20, 21, 30] * 2
    assert len(api.requests) == 3
    page = first.read_page(Slice(partition=partitions[0]), None)
    assert (page.records, page.next) == ([], None)
    assert api.requests[-1].url == "https://api.test/v1/users/10/posts"


def test_a_stream_may_keep_its_responses_from_run_to_run(tmp_path: Path) -> None:
    api = three_pages()

    for _ in range(2):
        with one_run():
            stream = users(api)
            stream.transport = CachedTransport(api, folder=tmp_path)
            assert ids(read_slice(stream, Slice())) == [10, 11, 20, 21, 30]

    assert len(api.requests) == 3


def test_a_stream_travels_to_other_processes() -> None:
    class Shipped(Users):
        budget = Budget(100)

        def authenticator(self) -> Authenticator | None:
            return OAuth2("https://api.test/token", client_id="a", client_secret="b")

    api = three_pages()
    api.post("/token").returns(json={"access_token": "one"})
    stream = users(api, Shipped)
    stream.read_page(Slice(), None)

    again = shipped(stream)
    fresh = shipped(Shipped({"url": "https://api.test"}))

    assert ids(read_slice(again, at({"page": 2}))) == [20, 21, 30]
    assert fresh.config == {"url": "https://api.test"}


def answering(body: Json, kind: type[Users] = Users) -> list[Json]:
    api = MockApi()
    api.get("/users").returns(json=body)
    stream = kind({"url": "https://api.example"})
    stream.transport = api
    return [record for page in read_slice(stream, Slice()) for record in page.records]


class KeyedUsers(Users):
    primary_key = "id"


class TopUsers(KeyedUsers):
    records_path: Sequence[str] = ()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Users, {"data": None, "errors": [{"message": "rate limited"}]}),
        (Users, {"data": None, "status": "unavailable"}),
        (Users, {"error": "quota exceeded", "data": []}),
        (Users, {"message": "Too many requests", "data": []}),
        (KeyedUsers, {"data": {"error": "down"}}),
        (TopUsers, {"error": "down", "code": 503}),
        (TopUsers, {"response": {"error": {"code": 500, "message": "internal server error"}}}),
        (TopUsers, {"data": {"error": "quota exceeded"}}),
        (TopUsers, {"meta": {"status": 503, "hint": "see the docs"}}),
    ],
)
def test_an_error_in_the_place_of_records_is_neither_an_empty_page_nor_a_record(kind: type[Users], body: Json) -> None:
    with pytest.raises(TransientError, match=r"answered 200.*; found an error, expected records at .*Try again later"):
        answering(body, kind)


@pytest.mark.parametrize(
    ("kind", "body", "count"),
    [
        (Users, {"data": {"error": "down"}}, 1),
        (KeyedUsers, {"data": {"id": 1, "status": "failed"}}, 1),
        (KeyedUsers, {"data": {"name": "x"}}, 1),
        (KeyedUsers, {"data": [{"error": "down"}]}, 1),
        (Users, {"data": None, "errors": []}, 0),
        (Users, {"data": [], "error": "page out of range"}, 0),
        (Users, {"data": [], "success": False, "message": "no records found"}, 0),
        (Users, {"data": [], "id": 5, "state": "failed"}, 0),
    ],
)
def test_an_object_that_may_be_a_record_is_one(kind: type[Users], body: Json, count: int) -> None:
    assert len(answering(body, kind)) == count


def test_an_outage_on_a_later_page_is_no_end_of_the_pages() -> None:
    api = MockApi()
    api.get("/v1/users").returns(json={"data": [{"id": 1}, {"id": 2}]}).returns(
        json={"data": [], "error": "quota exceeded"}
    )

    with pytest.raises(TransientError, match="quota exceeded; found an error"):
        list(read_slice(users(api), Slice()))


def test_an_error_handler_may_ignore_an_outage() -> None:
    class Lenient(Users):
        error_handler = HttpErrorHandler(rules=[lambda _: Outcome(Action.IGNORE)])

    assert answering({"data": [], "error": "quota exceeded"}, Lenient) == []


class Table(Users):
    records_path: Sequence[str] = ()
    decoder: Decoder = CsvRows()


class LenientTable(Table):
    error_handler = HttpErrorHandler(rules=[lambda _: Outcome(Action.IGNORE)])


def test_an_outage_in_the_place_of_a_table_is_an_error_unless_it_is_ignored() -> None:
    with pytest.raises(TransientError, match="answered 200: quota exceeded; found an error, expected CSV"):
        answering({"error": "quota exceeded"}, Table)
    assert answering({"error": "quota exceeded"}, LenientTable) == []


def test_a_body_without_the_records_path_is_an_error_and_not_an_empty_page() -> None:
    assert answering({"data": []}) == answering({"data": None}) == []
    with pytest.raises(DecodeError, match="found nothing at data"):
        answering({"error": "maintenance"})


class Changes(HttpStream):
    """Asks for what is newer than its state, which `parse` advances record by record."""

    url_base = "https://api.test"
    cursor_field = "id"
    primary_key = "id"
    paginator = PageNumber(size=2)

    def path(self, slice: Slice) -> str:  # noqa: ARG002
        return "/changes"

    def params(self, slice: Slice) -> Mapping[str, Json]:  # noqa: ARG002
        return {"since": self.state.get("id", 0)}

    def parse(  # type: ignore[override] # as code without types has it
        self, response: Response, slice: Slice
    ) -> Iterator[Record]:
        for record in super().parse(response, slice):
            self.state = {"id": max(record["id"], self.state.get("id", 0))}
            yield record


class ChangesApi:
    """Lists ids up to 7, the newest first, two a page."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def send(self, request: Request) -> Response:
        query = request.full_url.partition("?")[2]
        self.asked.append(query)
        sent = dict(part.split("=") for part in query.split("&"))
        ids, at = list(range(7, int(sent["since"]), -1)), 2 * (int(sent["page"]) - 1)
        return Response(
            200, Headers({}), orjson.dumps([{"id": n} for n in ids[at : at + 2]]), request.full_url, request
        )


@pytest.mark.parametrize("pages", [1, 2, 9])
def test_pages_are_asked_for_with_the_state_that_the_first_was(pages: int) -> None:
    api = ChangesApi()
    stream = Changes({})
    stream.transport = api

    begun = list(itertools.islice(read_slice(stream, Slice(start=Checkpoint({"id": 2}))), pages))
    position = begun[-1].position
    assert position is not None
    rest = [] if position.done else list(read_slice(stream, Slice(start=position)))

    assert [record["id"] for page in [*begun, *rest] for record in page.records] == [7, 6, 5, 4, 3]
    assert {query.replace("page=1", "").count("since=2") for query in api.asked} == {1}
    assert Checkpoint({"id": 7}) in [page.position for page in [*begun, *rest]]
