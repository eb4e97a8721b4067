"""Streams of a manifest: what their states say, and that a read that was cut is finished by the next."""

import itertools
import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from cdk.base.errors import BadState, TransientError
from cdk.base.records.raw_json_lines import JsonLines
from cdk.base.task_map import run_inline
from cdk.base.values import Json
from cdk.declarative.model.context import Runtime
from cdk.lake.admin.edits import import_state
from cdk.lake.delta.table_state import TableState
from cdk.lake.delta.write_modes import WriteModeName
from cdk.protocol.catalog import StreamDescriptor
from cdk.protocol.messages import AirbyteStateMessage, AirbyteStateType, AirbyteStreamState
from cdk.rest import Headers, Request, Response
from cdk.spark.sync_runner import SyncRunner
from cdk.state.position import Checkpoint
from cdk.state.slice import Slice
from cdk.state.wire import decode
from cdk.streams.page import Page
from cdk.streams.read_slice import read_slice
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from cdk.testing import MockApi, ReadResult, read
from tests.declarative.manifests import CURSOR, ids, option, paginator, queries, run, source

NOW = datetime(2024, 3, 1, tzinfo=UTC)
WINDOWS = {**CURSOR, "step": "P10D", "cursor_granularity": "P1D"}
LIST = {
    "type": "ListPartitionRouter",
    "cursor_field": "region",
    "values": ["eu", "us"],
    "request_option": option("region"),
}
PARENTS = {
    "type": "SubstreamPartitionRouter",
    "parent_stream_configs": [
        {
            "stream": {
                "type": "DeclarativeStream",
                "name": "regions",
                "retriever": {
                    "requester": {"url_base": "https://api.test", "path": "/regions"},
                    "record_selector": {"extractor": {"field_path": ["data"]}},
                },
            },
            "parent_key": "id",
            "partition_field": "region",
            "request_option": option("region"),
        }
    ],
}
NEXT = paginator({"type": "CursorPagination", "cursor_value": "{{ response.next }}"})


def at(blob: Json) -> list[AirbyteStateMessage]:
    """A state message of the stream `items`, as it lies in a platform."""
    said = AirbyteStreamState(stream_descriptor=StreamDescriptor(name="items"), stream_state=blob)
    return [AirbyteStateMessage(type=AirbyteStateType.STREAM, stream=said)]


def dated(*days: str, **more: Json) -> dict[str, Json]:
    return {"data": [{"id": day, "on": f"2024-01-{day}"} for day in days], **more}


def still() -> Runtime:
    """A clock that stands still."""
    return Runtime(clock=lambda: NOW)


def answering(answer: Callable[[dict[str, Any]], Json | None]) -> MockApi:
    """An API whose answers depend on the parameters of the request; None is an error."""
    api = MockApi()

    def answers(request: Request) -> Response:
        body = answer(dict(request.params))
        return Response(400 if body is None else 200, Headers({}), orjson.dumps(body), request.full_url, request)

    api.get("/items").answers(answers)
    return api


def found(made: ReadResult) -> set[str]:
    return {record["id"] for record in made.records}


def test_a_state_is_the_greatest_value_read() -> None:
    api = answering(lambda asked: dated("03", "02") if asked["since"] == "2024-01-01" else dated())

    made = run(api, stream={"incremental_sync": WINDOWS})

    assert [made.states[-1], len(api.requests)] == [{"on": "2024-01-03"}, 3]
    assert made.statuses == ["STARTED", "RUNNING", "COMPLETE"]


def test_an_answer_without_the_field_path_is_named_once_with_the_fields_that_are_there() -> None:
    made = run(answering(lambda _: {"dat": [], "total": 0}), stream={"incremental_sync": WINDOWS})

    (said,) = [line for line in made.logs if "check `field_path`" in line]
    assert "items: GET https://api.example.com/items" in said
    assert "returned no records: there is no 'data' in the body, whose fields are 'dat', 'total' (is it 'dat'?)" in said


NUMBERED = paginator({"type": "PageIncrement", "page_size": 2, "start_from_page": 1})


def seven(asked: Mapping[str, Json]) -> Json:
    """Seven records in pages of two, counted from 1, each page with how many there are."""
    days, page = ["01", "02", "03", "04", "05", "06", "07"], int(str(asked.get("page", 1)))
    return dated(*days[(page - 1) * 2 : page * 2], total=7)


@pytest.mark.parametrize(
    ("start", "stream", "count", "said"),
    [
        (1, {}, 7, []),
        (2, {}, 5, ["there is 7 in total of the body, and the 3 pages have 5 records"]),
        (2, {"incremental_sync": {**WINDOWS, "step": "P1Y"}}, 5, []),
        (2, {"incremental_sync": {**WINDOWS, "step": "P1Y", "is_data_feed": True}}, 5, []),
    ],
)
def test_the_records_of_all_counted_pages_are_compared_with_what_the_last_one_counts(
    start: int, stream: dict[str, Json], count: int, said: Sequence[str]
) -> None:
    pages = paginator({"type": "PageIncrement", "page_size": 2, "start_from_page": start})

    made = run(answering(seven), stream=stream, paginator=pages)

    assert len(made.records) == count
    assert len(made.warnings) == len(said)
    assert all(words in warning for words, warning in zip(said, made.warnings, strict=True))


@pytest.mark.parametrize(
    "body",
    [
        {"error": "quota"},
        {"data": None, "errors": [{"message": "quota"}]},
        {"status": "quota"},
        {"status": "error", "total": 2},
        {"status": 429},
        {"success": False},
        {"state": "OVER_QUOTA"},
        {"Message": "Rate limit reached, slow down"},
        {"code": "TooManyRequests"},
        {"data": [], "error": "quota exceeded"},
        {"data": [], "success": False, "message": "Too many requests"},
    ],
)
def test_an_error_in_the_place_of_a_later_page_is_no_end_of_the_pages(body: Json) -> None:
    made = run(answering(lambda asked: body if asked.get("page") == "2" else dated("01", "02")), paginator=NUMBERED)

    assert "page=2 answered 200" in str(made.error)
    assert "found an error, expected records at data as on the previous pages" in str(made.error)
    assert made.statuses[-1] == "INCOMPLETE"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"total": 2},
        {"message": "no more"},
        {"data": [], "errors": ["x"]},
        {"data": [], "error": "page out of range"},
        {"data": [], "success": False, "message": "no records found"},
        {"data": [], "id": 5, "state": "failed"},
        {"error": None, "errors": [], "success": True, "status": "ok", "code": 0},
        {"status": 200, "state": "complete", "message": "no results within the limit"},
        {"status": {"error": "x"}, "errorrate": 2, "note": "failed"},
    ],
)
def test_an_api_may_leave_out_an_empty_list_on_a_later_page(body: Json) -> None:
    made = run(answering(lambda asked: body if asked.get("page") == "2" else dated("01", "02")), paginator=NUMBERED)

    assert (ids(made), made.statuses[-1]) == (["01", "02"], "COMPLETE")


def test_an_error_in_the_place_of_the_first_page_is_an_empty_slice() -> None:
    assert ids(run(answering(lambda _: {"error": "not enabled"}), paginator=NUMBERED)) == []


@pytest.mark.parametrize("body", [{"data": [], "error": "quota exceeded"}, {"message": "Too many requests"}])
def test_an_outage_in_the_place_of_the_first_page_is_none_unless_it_is_ignored(body: Json) -> None:
    ignored = [{"type": "HttpResponseFilter", "predicate": "{{ 'total' not in response }}", "action": "IGNORE"}]
    handler = {"error_handler": {"type": "DefaultErrorHandler", "response_filters": ignored}}

    made = run(answering(lambda _: body), paginator=NUMBERED)

    assert isinstance(made.error, TransientError)
    assert "found an error, expected records at data. Try again later" in str(made.error)
    assert ids(run(answering(lambda _: body), paginator=NUMBERED, requester=handler)) == []


@pytest.mark.parametrize("body", [b"<html>Down</html>", b'{"error": "quota exceeded"}', b"Down for maintenance"])
def test_an_outage_in_the_place_of_a_table_leaves_its_window_open_unless_it_is_ignored(body: bytes) -> None:
    def answers(request: Request) -> Response:
        first = request.params["since"] == "2024-01-01"
        kind, content = ("text/csv", b"id,on\n7,2024-01-03\n") if first else ("text/html", body)
        return Response(200, Headers({"Content-Type": kind}), content, request.full_url, request)

    api = MockApi()
    api.get("/items").answers(answers)
    ignored = [
        {"type": "HttpResponseFilter", "predicate": "{{ 'html' in headers['content-type'] }}", "action": "IGNORE"}
    ]
    handler = {"error_handler": {"type": "DefaultErrorHandler", "response_filters": ignored}}
    table: dict[str, Any] = {"decoder": {"type": "CsvDecoder"}, "record_selector": {"extractor": {"field_path": []}}}

    made = run(api, stream={"incremental_sync": WINDOWS}, **table)

    assert "answered 200" in str(made.error)
    assert "CSV" in str(made.error)
    assert made.statuses[-1] == "INCOMPLETE"
    assert ids(run(api, stream={"incremental_sync": WINDOWS}, requester=handler, **table)) == ["7"]


@pytest.mark.parametrize("decoder", ["JsonDecoder", "JsonlDecoder", "CsvDecoder"])
@pytest.mark.parametrize("handler", [{}, {"response_filters": [{"http_codes": [304], "action": "IGNORE"}]}])
def test_a_304_that_nobody_asked_for_leaves_its_window_open_unless_it_is_ignored(
    decoder: str, handler: dict[str, Any]
) -> None:
    api = MockApi()
    api.get("/items").returns(status=304, body=b"")
    requester = {"error_handler": {"type": "DefaultErrorHandler", **handler}}

    made = run(api, stream={"incremental_sync": WINDOWS}, decoder={"type": decoder}, requester=requester)

    assert made.statuses[-1] == ("COMPLETE" if handler else "INCOMPLETE")
    assert (made.error is None) is bool(handler)


@pytest.mark.parametrize(
    "body", [{"data": None, "errors": [{"message": "rate limited"}]}, {"errors": [{"message": ""}]}]
)
def test_errors_of_graphql_in_the_place_of_a_first_page_leave_its_window_open(body: Json) -> None:
    api = answering(lambda asked: body if asked["since"] == "2024-01-01" else dated())

    made = run(api, stream={"incremental_sync": WINDOWS})

    assert "answered 200" in str(made.error)
    assert "found an error, expected records at data. Try again later" in str(made.error)
    assert made.statuses[-1] == "INCOMPLETE"


@pytest.mark.parametrize("body", [{"data": None, "errors": []}, {"data": None, "errors": ["x"]}, {"errors": {"a": 1}}])
def test_other_errors_in_the_place_of_a_first_page_are_an_empty_slice(body: Json) -> None:
    assert ids(run(answering(lambda _: body), paginator=NUMBERED)) == []


def test_a_resumed_page_that_answers_an_error_says_how_to_begin_anew() -> None:
    failing = {"next_page_token": 2, "counts": "pages from 1", "page_size": 2}
    api = answering(lambda _: {"error": "expired"})

    with pytest.raises(TransientError, match=r"the saved page token has expired: use `spark-cdk state reset`"):
        list(source(api, paginator=NUMBERED).streams({})[0].read_records(Slice(start=Checkpoint(failing))))


def test_records_outside_of_the_window_stay_and_are_named() -> None:
    made = run(
        answering(lambda _: dated("03", "20")), stream={"incremental_sync": {**CURSOR}}, state=at({"on": "2024-01-10"})
    )

    assert ids(made) == ["03", "20"]
    (text,) = [line for line in made.logs if "lie outside of the window" in line]
    assert "items: 1 of 2 records of a page lie outside of the window that was requested, from 2024-01-10 on" in text


def test_a_cursor_field_that_no_record_has_is_named_once_with_the_fields_that_are_there() -> None:
    made = run(answering(lambda _: {"data": [{"id": 1, "On": "2024-01-03"}]}), stream={"incremental_sync": WINDOWS})

    (said,) = [line for line in made.logs if "have no valid value of the cursor" in line]
    assert "items: 1 of 1 records of a page have no valid value of the cursor 'on'" in said
    assert "The fields of a record: 'On', 'id'" in said


def test_a_read_that_finds_nothing_keeps_its_state() -> None:
    made = run(answering(lambda _: dated()), stream={"incremental_sync": WINDOWS}, state=at({"on": "2024-01-20"}))

    assert {state["on"] for state in made.states} == {"2024-01-20"}
    assert made.states[-1] == {"on": "2024-01-20"}


def test_a_first_read_that_finds_nothing_stands_at_its_start() -> None:
    assert run(answering(lambda _: dated()), stream={"incremental_sync": WINDOWS}).states[-1] == {"on": "2024-01-01"}


def test_looking_back_does_not_move_the_state_back() -> None:
    looks = {**WINDOWS, "lookback_window": "P15D"}
    api = answering(lambda asked: dated("06") if asked["since"] == "2024-01-05" else dated())

    made = run(api, stream={"incremental_sync": looks}, state=at({"on": "2024-01-20"}))

    assert [query["since"] for query in queries(api)] == ["2024-01-05", "2024-01-15", "2024-01-25"]
    assert found(made) == {"06"}
    assert {state["on"] for state in made.states} <= {"2024-01-20"}


def test_a_failure_keeps_what_was_read_before_it() -> None:
    api = answering(lambda asked: None if asked["since"] == "2024-01-11" else dated(asked["since"][8:]))

    made = run(api, stream={"incremental_sync": WINDOWS})

    assert made.error is not None
    assert made.statuses[-1] == "INCOMPLETE"
    assert made.states[-1]["on"] == "2024-01-01"


def test_a_record_dated_beyond_its_window_does_not_jump_over_the_next_ones() -> None:
    def answer(asked: dict[str, Any]) -> Json:
        if asked["since"] == "2024-01-01":
            return dated("05", "25")
        return dated("15") if asked["since"] <= "2024-01-15" <= asked["until"] else dated()

    broken, whole = (
        answering(lambda asked: answer(asked) if asked["since"] == "2024-01-01" else None),
        answering(answer),
    )

    cut = run(broken, stream={"incremental_sync": WINDOWS})
    rest = run(whole, stream={"incremental_sync": WINDOWS}, state=cut.state_messages)

    assert found(cut) | found(rest) == {"05", "25", "15"}


@pytest.mark.parametrize(("day", "reached"), [("25", "25"), ("31", "05")], ids=["within the plan", "in the future"])
def test_a_record_dated_beyond_its_window_counts_once_all_windows_up_to_it_are_read(day: str, reached: str) -> None:
    api = answering(lambda asked: dated("05", day) if asked["since"] == "2024-01-01" else dated())
    dated_windows = {**WINDOWS, "end_datetime": {"datetime": "2024-01-28", "datetime_format": "%Y-%m-%d"}}

    made = run(api, stream={"incremental_sync": dated_windows})

    assert len(api.requests) == 3
    assert [made.states[0]["on"], made.states[-1]["on"]] == ["2024-01-05", f"2024-01-{reached}"]


DAYS = ("09", "02", "05", "12", "01", "20", "31", "11")


def honest(asked: dict[str, Any]) -> Json:
    """What lies between the dates asked for, in no order, two records a page."""
    lie = [day for day in DAYS if asked["since"] <= f"2024-01-{day}" <= asked["until"]]
    begin = int(asked.get("page", 0))
    following = {"next": str(begin + 2)} if begin + 2 < len(lie) else {}
    return dated(*lie[begin : begin + 2], **following)


@pytest.mark.parametrize("breaks", range(8))
@pytest.mark.parametrize("router", [None, LIST])
def test_a_cut_read_resumes_without_loss(breaks: int, router: dict[str, Any] | None) -> None:
    """Wherever it is cut, and cut again right after."""
    parts: dict[str, Any] = {"paginator": NEXT, "stream": {"incremental_sync": WINDOWS}}
    if router is not None:
        parts["partition_router"] = router

    seen: list[int] = []

    def broken(asked: dict[str, Any]) -> Json | None:
        seen.append(1)
        return None if len(seen) > breaks else honest(asked)

    expected = run(answering(honest), **parts, runtime=still())
    assert found(expected) == set(DAYS)
    first = run(answering(broken), **parts, runtime=still())
    seen.clear()
    second = run(answering(broken), **parts, state=first.state_messages, runtime=still())
    state = second.state_messages or first.state_messages
    last = run(answering(honest), **parts, state=state, runtime=still())

    assert last.error is None
    assert found(first) | found(second) | found(last) == found(expected)
    assert last.states[-1] == expected.states[-1]


COUNTED = [
    {"type": "PageIncrement", "page_size": 2},
    {"type": "PageIncrement", "page_size": 3},
    {"type": "PageIncrement", "page_size": 3, "start_from_page": 1},
    {"type": "OffsetIncrement", "page_size": 2},
    {"type": "OffsetIncrement", "page_size": 3},
]


@pytest.mark.parametrize("breaks", range(1, 5))
@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(COUNTED, 2)))
def test_a_read_that_was_cut_with_other_pages_loses_nothing(
    before: dict[str, Any], after: dict[str, Any], breaks: int
) -> None:
    seen: list[int] = []

    def api(strategy: dict[str, Any], most: int = 100) -> MockApi:
        size, first = strategy["page_size"], strategy.get("start_from_page", 0)

        def answer(asked: dict[str, Any]) -> Json | None:
            seen.append(1)
            page = int(asked.get("page", first))
            begin = page if strategy["type"] == "OffsetIncrement" else (page - first) * size
            return None if len(seen) > most else dated(*sorted(DAYS)[begin : begin + size])

        return answering(answer)

    def read_with(strategy: dict[str, Any], api: MockApi, **more: Any) -> ReadResult:
        pages = paginator(strategy, size=True)
        return run(api, paginator=pages, stream={"incremental_sync": CURSOR}, runtime=still(), **more)

    first = read_with(before, api(before, breaks))
    seen.clear()
    last = read_with(after, api(after), state=first.state_messages)

    assert last.error is None
    assert found(first) | found(last) == set(DAYS)


def test_partitions_say_where_each_stands() -> None:
    api = answering(lambda asked: dated("03") if asked["region"] == "eu" else dated("05"))

    made = run(api, partition_router=LIST, stream={"incremental_sync": CURSOR}, runtime=still())

    state = made.states[-1]
    assert state["use_global_cursor"] is False
    assert state["states"] == [
        {"partition": {"region": "eu"}, "cursor": {"on": "2024-01-03"}},
        {"partition": {"region": "us"}, "cursor": {"on": "2024-01-05"}},
    ]
    assert state["state"] == {"on": "2024-01-05"}
    assert state["lookback_window"] == 1


def test_a_read_of_partitions_that_fails_knows_no_common_value() -> None:
    api = answering(lambda asked: dated("03") if asked["region"] == "eu" else None)

    made = run(api, partition_router=LIST, stream={"incremental_sync": CURSOR}, runtime=still())

    state = made.states[-1]
    assert {"partition": {"region": "eu"}, "cursor": {"on": "2024-01-03"}} in state["states"]
    assert [state["lookback_window"], "state" in state] == [0, False]


def test_each_partition_goes_on_from_its_own_value() -> None:
    api = answering(lambda _: dated())
    state = {
        "use_global_cursor": False,
        "states": [
            {"partition": {"region": "eu"}, "cursor": {"on": "2024-01-03"}},
            {"partition": {"region": "us"}, "cursor": {"on": "2024-01-05"}},
        ],
        "state": {"on": "2024-01-05"},
        "lookback_window": 3,
    }

    made = run(api, partition_router=LIST, stream={"incremental_sync": CURSOR}, state=at(state), runtime=still())

    assert [query["since"] for query in queries(api)] == ["2024-01-03", "2024-01-05"]
    assert made.states[-1] == state


@pytest.mark.parametrize("days", [(), ("02",)])
def test_positions_of_partitions_count_for_a_common_value_that_a_state_lacks(days: Sequence[str]) -> None:
    api = answering(lambda asked: dated("02") if asked["region"] == "us" else dated(*days))
    state = {"use_global_cursor": False, "states": [{"partition": {"region": "eu"}, "cursor": {"on": "2024-01-05"}}]}

    made = run(api, partition_router=LIST, stream={"incremental_sync": CURSOR}, state=at(state), runtime=still())

    assert made.states[-1]["state"] == {"on": "2024-01-05"}


def test_a_state_of_a_read_that_fails_has_an_entry_for_parents_that_are_not_followed() -> None:
    api = answering(lambda asked: dated("03") if asked["region"] == "eu" else None)
    api.get("/regions").returns(json={"data": [{"id": "eu"}, {"id": "us"}]})

    made = run(api, partition_router=PARENTS, stream={"incremental_sync": CURSOR}, runtime=still())

    assert made.error is not None
    assert made.states[-1]["parent_state"] == {}


def test_a_partition_that_is_missing_may_be_forgotten() -> None:
    (stream,) = source(
        answering(lambda _: dated("05")), partition_router=LIST, stream={"incremental_sync": CURSOR}
    ).streams({})
    reader = stream.checkpoint_reader(
        decode({"states": [{"partition": {"region": "ch"}, "cursor": {"on": "2024-01-03"}}]})
    )
    for slice in iter(reader.next, None):
        for page in read_slice(stream, slice):
            if page.position is not None:
                reader.observe(slice, page.position, page.edge)

    assert reader.forget_missing(NOW, timedelta()) == 1
    state = reader.get_checkpoint()
    assert state is not None
    assert [partition["region"] for partition in state.positions] == ["eu", "us"]


def test_a_partition_that_is_new_is_read_from_the_start() -> None:
    api = answering(lambda _: dated())
    state = {"states": [{"partition": {"region": "us"}, "cursor": {"on": "2024-01-05"}}], "state": {"on": "2024-01-05"}}

    run(api, partition_router=LIST, stream={"incremental_sync": CURSOR}, state=at(state), runtime=still())

    assert [query["since"] for query in queries(api)] == ["2024-01-01", "2024-01-05"]


SHARED = {**CURSOR, "global_substream_cursor": True}


def test_one_cursor_may_serve_all_partitions() -> None:
    api = answering(lambda asked: dated("03") if asked["region"] == "eu" else dated("05"))

    state = run(api, partition_router=LIST, stream={"incremental_sync": SHARED}, runtime=still()).states[-1]

    assert state["use_global_cursor"] is True
    assert [state["state"], state["lookback_window"]] == [{"on": "2024-01-05"}, 1]
    assert "states" not in state


def test_what_came_while_others_were_read_is_found_by_the_next_read() -> None:
    """A shared cursor starts before its value by as long as the read that reached it took."""
    api = answering(lambda _: dated())
    state = {"use_global_cursor": True, "state": {"on": "2024-01-20"}, "lookback_window": 86_401}

    made = run(api, partition_router=LIST, stream={"incremental_sync": SHARED}, state=at(state), runtime=still())

    assert [query["since"] for query in queries(api)] == ["2024-01-18", "2024-01-18"]
    assert made.states[-1]["use_global_cursor"] is True
    assert made.states[-1]["state"] == {"on": "2024-01-20"}


def test_a_read_that_is_cut_again_and_again_looks_back_from_the_same_value() -> None:
    api = answering(lambda asked: dated() if asked["region"] == "eu" else None)
    parts: dict[str, Any] = {"partition_router": LIST, "stream": {"incremental_sync": SHARED}, "runtime": still()}
    state = at({"use_global_cursor": True, "state": {"on": "2024-01-20"}, "lookback_window": 86_401})

    for _ in range(3):
        state = run(api, **parts, state=state).state_messages

    assert queries(api)[-1]["since"] == "2024-01-18"


def test_a_partition_that_was_begun_waits_beside_a_shared_cursor_until_it_is_listed_again() -> None:
    begun = {"partition": {"region": "ch"}, "cursor": {"on": "2024-01-02", "_cdk": {"through": "2024-01-02"}}}
    others = {"partition": {"region": "eu"}, "cursor": {"on": "2024-01-08"}}
    parts: dict[str, Any] = {"stream": {"incremental_sync": SHARED}, "runtime": still()}
    state = at({"use_global_cursor": False, "states": [begun, others]})

    without = run(answering(lambda _: dated("09")), partition_router=LIST, state=state, **parts)
    api = answering(lambda _: dated("03"))
    again = run(api, partition_router={**LIST, "values": ["ch"]}, state=without.state_messages, **parts)

    assert [without.states[-1]["state"], without.states[-1]["states"]] == [{"on": "2024-01-09"}, [begun]]
    assert queries(api)[0]["since"] == "2024-01-02"
    assert [again.states[-1]["state"], "states" in again.states[-1]] == [{"on": "2024-01-09"}, False]


def test_a_read_without_partitions_says_an_empty_state() -> None:
    empty = {**LIST, "values": "{{ [] }}"}

    made = run(answering(honest), partition_router=empty, stream={"incremental_sync": CURSOR}, runtime=still())

    assert made.states == [{"use_global_cursor": False, "states": [], "lookback_window": 0}]


def of_regions(*regions: str) -> MockApi:
    """An API of parents, each of which has no records."""
    api = answering(lambda _: dated())
    api.get("/regions").returns(json={"data": [{"id": region} for region in regions]})
    return api


def test_a_read_without_parents_says_an_empty_state() -> None:
    parts: dict[str, Any] = {"partition_router": PARENTS, "stream": {"incremental_sync": CURSOR}, "runtime": still()}

    made = run(of_regions(), **parts)
    again = run(of_regions(), **parts, state=made.state_messages)

    assert made.states == [{"use_global_cursor": False, "states": [], "lookback_window": 0, "parent_state": {}}]
    assert made.states == again.states


def test_an_old_form_of_the_state_waits_for_partitions() -> None:
    """They are to start from its cursor, when the source has some again."""
    parts: dict[str, Any] = {"partition_router": PARENTS, "stream": {"incremental_sync": CURSOR}, "runtime": still()}
    none = run(of_regions(), **parts, state=at({"on": "2024-01-05"}))
    api = of_regions("eu")

    run(api, **parts, state=none.state_messages)

    assert none.states == [{"on": "2024-01-05"}]
    assert queries(api)[-1]["since"] == "2024-01-05"


def test_a_common_value_is_not_before_the_start() -> None:
    api = answering(lambda _: {"data": [{"id": 1, "on": "2023-01-01"}]})

    made = run(api, partition_router=LIST, stream={"incremental_sync": CURSOR}, runtime=still())

    assert made.states[-1]["state"] == {"on": "2024-01-01"}


def test_no_partition_of_a_shared_cursor_is_forgotten() -> None:
    (stream,) = source(
        answering(lambda _: dated("05")), partition_router=LIST, stream={"incremental_sync": SHARED}
    ).streams({})
    reader = stream.checkpoint_reader(
        decode({"states": [{"partition": {"region": "ch"}, "cursor": {"on": "2024-01-03"}}]})
    )
    for slice in iter(reader.next, None):
        for page in read_slice(stream, slice):
            if page.position is not None:
                reader.observe(slice, page.position, page.edge)

    assert reader.forget_missing(NOW, timedelta()) == 0


GROUPS = {"type": "GroupingPartitionRouter", "group_size": 1, "underlying_partition_router": LIST}


@pytest.mark.parametrize(("router", "cursor"), [(LIST, SHARED), (GROUPS, CURSOR)])
def test_a_table_of_partitions_that_share_a_cursor_has_each_record_once(
    tmp_path: Path, router: Json, cursor: Json
) -> None:
    days = {"eu": ["03", "04"], "us": ["05"]}

    def answer(asked: dict[str, Any]) -> Json:
        (region,) = (asked["region"],) if isinstance(asked["region"], str) else asked["region"]
        return dated(*(day for day in days[region] if f"2024-01-{day}" >= asked["since"]))

    shown = {"request_parameters": {"region": "{{ stream_partition.region }}"}} if router is GROUPS else {}
    made = source(
        answering(answer),
        partition_router=router,
        requester=shown,
        stream={"incremental_sync": cursor},
        runtime=still(),
    )
    pipeline = Pipeline(
        name="p",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(tmp_path)),
        streams={"items": StreamOptions(write_mode="append")},
    )
    counts = []
    for more in ([], [], ["06"]):
        days["eu"] += more
        (report,) = SyncRunner(pipeline, made, workers=Workers(run_inline, 1)).run().streams
        table = DeltaTable(str(tmp_path / "items")).to_pyarrow_table()
        counts.append((report.status, sorted(table["id"].to_pylist())))

    first = ["03", "04", "05"]
    assert counts == [(Status.DONE, first), (Status.DONE, first), (Status.DONE, [*first, "06"])]


@pytest.mark.parametrize(
    ("write_mode", "pages"), [("overwrite", [3, 4]), ("append_dedup", [3, 4]), ("append", [1, 2, 3, 4])]
)
def test_a_sync_without_a_cursor_resumes_at_its_page_where_no_row_can_be_there_twice(
    tmp_path: Path, write_mode: WriteModeName, pages: list[int]
) -> None:
    failing = True

    def answer(request: Request) -> Response:
        page = int(request.params["page"])
        if page == 3 and failing:
            return Response(404, Headers({}), b"{}", request.full_url, request)
        body = {"data": [{"id": 2 * page}, {"id": 2 * page + 1}] if page < 4 else []}
        return Response(200, Headers({}), orjson.dumps(body), request.full_url, request)

    api = MockApi()
    api.get("/items").answers(answer)
    counted = {"type": "PageIncrement", "start_from_page": 1, "inject_on_first_request": True}
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    loader = {"type": "InlineSchemaLoader", "schema": schema}
    made = source(api, paginator=paginator(counted), stream={"schema_loader": loader})
    pipeline = Pipeline(
        name="p",
        source=SourceOptions(connector="given"),
        target=TargetOptions(path=str(tmp_path)),
        streams={"items": StreamOptions(write_mode=write_mode)},
    )

    def sync() -> StreamReport:
        return SyncRunner(pipeline, made, workers=Workers(run_inline, 1)).run().streams[0]

    assert sync().status is Status.FAILED
    failing = False
    api.requests.clear()
    report = sync()

    assert (report.status, [int(query["page"]) for query in queries(api)]) == (Status.DONE, pages)
    rows = DeltaTable(str(tmp_path / "items")).to_pyarrow_table()["id"].to_pylist()
    assert sorted(rows) == [2, 3, 4, 5, 6, 7]


def test_a_stream_that_resumes_at_its_pages_does_so_in_another_process() -> None:
    made = source(answering(lambda _: dated("01")), paginator=NEXT)
    (stream,) = made.open({})

    travelled = pickle.loads(pickle.dumps(stream.resuming_pages()))  # noqa: S301 - our own

    assert (stream.supports_checkpointing, travelled.supports_checkpointing) == (False, True)
    assert not pickle.loads(pickle.dumps(stream)).supports_checkpointing  # noqa: S301 - our own


def test_a_shared_cursor_that_was_cut_loses_nothing() -> None:

    def whole(asked: dict[str, Any]) -> Json:
        return dated("21" if asked["region"] == "eu" else "22")

    parts: dict[str, Any] = {"partition_router": LIST, "stream": {"incremental_sync": SHARED}, "runtime": still()}
    state = at({"use_global_cursor": True, "state": {"on": "2024-01-20"}, "lookback_window": 1})

    cut = run(answering(lambda asked: whole(asked) if asked["region"] == "eu" else None), **parts, state=state)
    api = answering(whole)
    rest = run(api, **parts, state=cut.state_messages)

    assert found(cut) | found(rest) == {"21", "22"}
    us = next(query for query in queries(api) if query["region"] == "us")
    assert us["since"] <= "2024-01-20"
    assert rest.states[-1]["state"] == {"on": "2024-01-22"}


def test_the_lookback_is_the_time_that_the_read_took() -> None:
    ticks = iter(NOW + timedelta(seconds=90 * n) for n in range(1_000))
    api = answering(lambda _: dated("03"))

    made = run(
        api, partition_router=LIST, stream={"incremental_sync": CURSOR}, runtime=Runtime(clock=lambda: next(ticks))
    )

    assert made.states[-1]["lookback_window"] >= 90


@pytest.mark.parametrize("parts", [{}, {"partition_router": LIST, "stream": {"incremental_sync": CURSOR}}])
def test_a_stream_that_travelled_reads_the_same(parts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    api = answering(lambda _: dated("03", "04"))
    monkeypatch.setattr("cdk.rest.HttpTransport.send", lambda _, request: api.send(request))
    (stream,) = source(api, **parts).streams({})

    there = read(pickle.loads(pickle.dumps(stream)))  # noqa: S301 - made here

    assert there.error is None
    assert there.records == read(stream).records != []


def test_a_stream_of_no_source_does_not_travel() -> None:
    (stream,) = source(MockApi()).streams({})
    stream.reload = None  # type: ignore[attr-defined]

    with pytest.raises(TypeError, match="items: only a stream of a source"):
        pickle.dumps(stream)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({}, True),
        ({"record_filter": {"type": "RecordFilter", "condition": "{{ record.id }}"}}, False),
        ({"schema_normalization": "Default"}, False),
    ],
)
def test_records_that_no_part_of_a_manifest_looks_at_are_not_decoded(changed: Json, text: bool) -> None:  # noqa: FBT001
    api = MockApi()
    api.get("/items").returns(json={"data": [{"id": 1}, {"id": 2}]})
    (stream,) = source(api, selector=changed).streams({})

    (page,) = [item for item in stream.items(Slice()) if isinstance(item, Page)]

    assert list(page.records) == [{"id": 1}, {"id": 2}]
    assert isinstance(page.records, JsonLines) == text


def test_what_is_no_number_is_null() -> None:
    """Services in Python write NaN, which is no JSON."""
    api = MockApi()
    api.get("/items").returns(body=b'{"data": [{"id": 1, "rates": [NaN]}]}')

    assert run(api).records == [{"id": 1, "rates": [None]}]


@pytest.mark.parametrize(
    ("router", "blob", "expected"),
    [
        (None, {"on": "2024-01-03"}, "a page token under 'next_page_token'"),
        (None, {"states": [{"partition": {"region": "eu"}, "cursor": {}}]}, "a state without partitions"),
        (LIST, {"states": [{"partition": {"region": 1}, "cursor": {}}]}, 'a partition like {"region":"eu"}'),
    ],
)
def test_a_state_that_no_read_would_resume_from_cannot_be_set(router: Json, blob: Json, expected: str) -> None:
    more = {} if router is None else {"partition_router": router}
    stream = source(MockApi(), **more, paginator=NEXT).streams({})[0]
    before = None if router is None else {"states": [{"partition": {"region": "eu"}, "cursor": {}}]}

    with pytest.raises(BadState, match=re.escape(expected)):
        import_state(TableState("full_refresh", "append", state=before), stream, blob)
