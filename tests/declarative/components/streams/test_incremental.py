"""How manifests say that a stream advances."""

from datetime import UTC, datetime
from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.declarative.model.context import Runtime
from tests.declarative.manifests import CURSOR, ids, option, paginator, queries, run, source
from tests.declarative.reading.test_manifest_stream import answering, at, dated

NOW = datetime(2024, 1, 10, 8, tzinfo=UTC)
NEXT = paginator({"type": "CursorPagination", "cursor_value": "{{ response.next }}"})


def windows(state: Json = None, **parts: Any) -> list[dict[str, Any]]:
    """What is asked for on 10 January."""
    api = answering(lambda _: dated())
    made = run(
        api,
        stream={"incremental_sync": {**CURSOR, **parts}},
        state=at(state) if state else [],
        runtime=Runtime(clock=lambda: NOW),
    )
    assert made.error is None
    return queries(api)


def fails(**parts: Any) -> str:
    with pytest.raises(ManifestError) as error:
        source(answering(lambda _: None), stream={"incremental_sync": {**CURSOR, **parts}}).streams({})
    return str(error.value)


def test_reads_end_at_the_present_unless_told() -> None:
    assert windows(end_datetime=None) == [{"since": "2024-01-01", "until": "2024-01-10"}]
    assert windows(end_datetime="2024-01-05") == [{"since": "2024-01-01", "until": "2024-01-05"}]
    assert windows(end_datetime="2024-02-05") == [{"since": "2024-01-01", "until": "2024-02-05"}]


@pytest.mark.parametrize(
    ("moment", "found"),
    [
        ({"datetime": "2024-01-03"}, "2024-01-03"),
        ({"datetime": "03/01/2024", "datetime_format": "%d/%m/%Y"}, "2024-01-03"),
        ({"datetime": "2024-01-03", "min_datetime": "2024-01-05"}, "2024-01-05"),
        ({"datetime": "2024-01-09", "max_datetime": "2024-01-08"}, "2024-01-08"),
        ({"datetime": "2024-01-03", "min_datetime": "2024-01-09", "max_datetime": "2024-01-08"}, "2024-01-08"),
        ({"datetime": "{{ config.region and '2024-01-04' }}"}, "2024-01-04"),
        ({"datetime": "2024-01-03", "min_datetime": "{{ config.get('from', '') }}"}, "2024-01-03"),
        ({"datetime": "2024-01-03", "max_datetime": "{{ config['until'] }}"}, "2024-01-03"),
    ],
)
def test_a_moment_is_kept_between_two_others(moment: dict[str, Json], found: str) -> None:
    start = {"type": "MinMaxDatetime", **moment}

    assert windows(start_datetime=start) == [{"since": found, "until": "2024-01-31"}]


@pytest.mark.parametrize(
    ("pattern", "since", "until"), [("%s", "1704067200", "1704844800"), ("%ms", "1704067200000", "1704844800000")]
)
def test_epochs_are_texts_in_requests_and_states(pattern: str, since: str, until: str) -> None:
    cursor = {**CURSOR, "datetime_format": pattern, "end_datetime": "2024-01-10"}
    api = answering(lambda _: {"data": [{"id": 1, "on": int(since) + 5}]})

    made = run(api, stream={"incremental_sync": cursor})

    assert queries(api) == [{"since": since, "until": until}]
    assert made.states[-1] == {"on": str(int(since) + 5)}


def test_steps_and_lookbacks_may_be_expressions() -> None:
    found = windows({"on": "2024-01-08"}, step="P{{ 10 }}D", cursor_granularity="P1D", lookback_window="P{{ 1 + 2 }}D")

    assert [query["since"] for query in found] == ["2024-01-05", "2024-01-15", "2024-01-25"]


def test_step_and_granularity_belong_together() -> None:
    assert "set both or neither" in fails(step="P1D")
    assert "set both or neither" in fails(cursor_granularity="P1D")


def test_what_is_no_date_is_told() -> None:
    assert "start_datetime: found 'soon', expected a timestamp in the format '%Y-%m-%d'" in fails(start_datetime="soon")
    assert "step: found 'P', expected a duration" in fails(step="P", cursor_granularity="P1D")
    assert "datetime_format: found 'yyyy-MM-dd', expected the parts" in fails(datetime_format="yyyy-MM-dd")
    assert "such as %Y-%m-%dT%H:%M:%SZ; '%Q' is none" in fails(datetime_format="{{ '%Y-%Q' }}")


def test_windows_may_be_whole_weeks() -> None:
    found = windows(
        step="P1W",
        cursor_granularity="P1D",
        clamping={"target": "WEEK", "target_details": {"weekday": "MONDAY"}},
        start_datetime="2024-01-03",
    )

    assert found == [
        {"since": "2024-01-08", "until": "2024-01-14"},
        {"since": "2024-01-15", "until": "2024-01-21"},
        {"since": "2024-01-22", "until": "2024-01-28"},
    ]


def test_expressions_see_the_window_under_the_names_given() -> None:
    names = {"partition_field_start": "from", "partition_field_end": "to"}
    plain = {key: value for key, value in CURSOR.items() if not key.endswith("_option")}
    shown = {"request_parameters": {"q": "{{ stream_slice['from'] }}..{{ stream_interval['to'] }}"}}
    api = answering(lambda _: dated())

    run(api, requester=shown, stream={"incremental_sync": {**plain, **names}})

    assert queries(api) == [{"q": "2024-01-01..2024-01-31"}]


def test_a_source_that_does_not_filter_is_read_from_the_state() -> None:
    plain = {**CURSOR, "is_client_side_incremental": True, "lookback_window": "P1D"}
    api = answering(lambda _: dated("02", "04", "05", "09"))

    made = run(api, stream={"incremental_sync": plain}, state=at({"on": "2024-01-05"}))

    assert ids(made) == ["04", "05", "09"]
    assert made.states[-1] == {"on": "2024-01-09"}


def test_a_feed_ends_at_the_state() -> None:
    feed = {**CURSOR, "is_data_feed": True}
    pages = {None: dated("09", "07", next="b"), "b": dated("05", "03", next="c"), "c": dated("02")}
    api = answering(lambda asked: pages[asked.get("page")])

    made = run(api, paginator=NEXT, stream={"incremental_sync": feed}, state=at({"on": "2024-01-05"}))

    assert ids(made) == ["09", "07", "05"]
    assert len(api.requests) == 2
    assert made.states[-1] == {"on": "2024-01-09"}


def test_a_feed_that_is_filtered_here_ends_at_the_state_too() -> None:
    feed = {**CURSOR, "is_data_feed": True, "is_client_side_incremental": True}
    pages = {None: dated("09", "05", next="b"), "b": dated("03", "02", next="c"), "c": dated("02", "01", next="d")}
    api = answering(lambda asked: pages[asked.get("page")])

    made = run(api, paginator=NEXT, stream={"incremental_sync": feed}, state=at({"on": "2024-01-05"}))

    assert ids(made) == ["09", "05"]
    assert len(api.requests) == 2


@pytest.mark.parametrize("filtered", [False, True])
def test_a_feed_goes_on_behind_pages_that_are_too_new(filtered: bool) -> None:  # noqa: FBT001
    feed = {**CURSOR, "is_data_feed": True, "is_client_side_incremental": filtered, "end_datetime": "2024-01-07"}
    pages = {None: dated("09", "08", next="b"), "b": dated("07", "05", next="c"), "c": dated("03", next="d")}
    api = answering(lambda asked: pages[asked.get("page")])

    made = run(api, paginator=NEXT, stream={"incremental_sync": feed}, state=at({"on": "2024-01-05"}))

    assert ids(made) == ["07", "05"]
    assert len(api.requests) == 3


def test_records_without_a_date_are_records() -> None:
    api = answering(lambda _: {"data": [{"id": 1}, {"id": 2, "on": None}, {"id": 3, "on": "?"}]})

    made = run(api, stream={"incremental_sync": CURSOR})

    assert ids(made) == [1, 2, 3]
    assert made.states[-1] == {"on": "2024-01-01"}


COUNT = {"type": "IncrementingCountCursor", "cursor_field": "id", "start_value_option": option("since_id")}


def test_a_count_advances_to_the_greatest_number() -> None:
    api = answering(lambda _: {"data": [{"id": 12}, {"id": 9}]})

    first = run(api, stream={"incremental_sync": {**COUNT, "start_value": "{{ 2 + 5 }}"}})
    run(api, stream={"incremental_sync": COUNT}, state=first.state_messages)

    assert first.states[-1] == {"id": 12}
    assert queries(api) == [{"since_id": "7"}, {"since_id": "12"}]


def test_a_count_starts_at_a_whole_number() -> None:
    with pytest.raises(ManifestError, match="start_value: found 'x', expected an integer"):
        source(answering(lambda _: None), stream={"incremental_sync": {**COUNT, "start_value": "x"}}).streams({})


@pytest.mark.parametrize(
    ("clamping", "found"),
    [
        ({"target": "YEAR"}, "found the target 'YEAR', expected DAY, WEEK or MONTH"),
        ({"target": "WEEK"}, "found the weekday '', expected one of MONDAY,"),
        ({"target": "WEEK", "target_details": {"weekday": "SOMEDAY"}}, "found the weekday 'SOMEDAY'"),
    ],
)
def test_a_clamping_that_is_none_is_refused(clamping: dict[str, Json], found: str) -> None:
    assert f"DatetimeBasedCursor.clamping: {found}" in fails(clamping=clamping)


def test_a_step_that_is_no_duration_is_refused() -> None:
    assert "DatetimeBasedCursor.step: found 'soon', expected a duration such as P1D" in fails(step="soon")
