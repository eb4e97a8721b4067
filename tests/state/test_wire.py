"""The wire form of state: what is read, what is written, and what is refused with a place and a reason."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import BadState, Checkpoint, Done, Json, Partition, Position, Start, StreamState, Window
from cdk.base.values import JsonObject
from cdk.state.position import Edge, OpenSlice, Resume, Trail
from cdk.state.position_json import OWN_KEY
from cdk.state.slice import WHOLE
from cdk.state.stored_positions import StoredPositions
from cdk.state.wire import decode, encode, reserved_names


def test_since_when_a_partition_is_missing_is_in_the_exact_form_alone() -> None:
    since = datetime(2024, 1, 1, tzinfo=UTC)
    state = StreamState(StoredPositions.of({ONE: VALUE, TWO: VALUE}, {TWO: since}))
    exact = encode(state, incremental=True, exact=True)

    assert isinstance(exact["states"], list)
    assert exact["states"][1] == {
        "partition": {"pid": "1"},
        "cursor": {"updated_at": "2024-01-05"},
        "missing": "2024-01-01T00:00:00+00:00",
    }
    assert decode(exact) == state
    assert decode(encode(state, incremental=True)) == StreamState({ONE: VALUE, TWO: VALUE})


@pytest.mark.parametrize("text", ["soon", 7])
def test_a_moment_since_when_a_partition_is_missing_that_is_none_is_refused(text: Json) -> None:
    with pytest.raises(BadState, match=r"state.states\[0\].missing: found .*, expected a timestamp in ISO 8601"):
        decode({"states": [{"partition": {"pid": 1}, "cursor": {}, "missing": text}]})


PAGE = Checkpoint({"next_page_token": 7})
VALUE = Checkpoint({"updated_at": "2024-01-05"})
ONE, TWO = Partition.of(pid=1), Partition.of(pid="1")


@pytest.mark.parametrize(
    "blob", [None, {}, [], {"__ab_no_cursor_state_message": True}, {"__ab_full_refresh_state_message": True}], ids=str
)
def test_a_stream_that_was_never_read_has_no_positions(blob: Json) -> None:
    assert decode(blob) == StreamState()


@pytest.mark.parametrize(
    ("state", "how", "blob"),
    [
        (StreamState(), {"incremental": False}, {}),
        (StreamState(), {"incremental": True}, {}),
        (
            StreamState({WHOLE: Done()}),
            {"incremental": False, "resumable": False},
            {"__ab_no_cursor_state_message": True},
        ),
        (StreamState({WHOLE: PAGE}), {"incremental": False}, {"next_page_token": 7}),
        (StreamState({WHOLE: Done()}), {"incremental": False}, {"__ab_full_refresh_sync_complete": True}),
        (StreamState({WHOLE: VALUE}), {"incremental": True}, {"updated_at": "2024-01-05"}),
        (
            StreamState({ONE: VALUE, TWO: Start()}),
            {"incremental": True},
            {
                "use_global_cursor": False,
                "states": [
                    {"partition": {"pid": 1}, "cursor": {"updated_at": "2024-01-05"}},
                    {"partition": {"pid": "1"}, "cursor": {}},
                ],
            },
        ),
        (
            StreamState({ONE: Start(), TWO: Done()}),
            {"incremental": False},
            {
                "states": [
                    {"partition": {"pid": 1}, "cursor": {}},
                    {"partition": {"pid": "1"}, "cursor": {"__ab_full_refresh_sync_complete": True}},
                ]
            },
        ),
        (
            StreamState({ONE: VALUE}, parents={"users": StreamState({WHOLE: VALUE})}),
            {"incremental": True},
            {
                "use_global_cursor": False,
                "states": [{"partition": {"pid": 1}, "cursor": {"updated_at": "2024-01-05"}}],
                "parent_state": {"users": {"updated_at": "2024-01-05"}},
            },
        ),
        (
            StreamState({ONE: VALUE}, after=ONE),
            {"incremental": True},
            {
                "use_global_cursor": False,
                "states": [{"partition": {"pid": 1}, "cursor": {"updated_at": "2024-01-05"}}],
                "_cdk": {"after": {"pid": 1}},
            },
        ),
        (
            StreamState(after=ONE),
            {"incremental": True},
            {"use_global_cursor": False, "states": [], "_cdk": {"after": {"pid": 1}}},
        ),
    ],
)
def test_every_state_has_the_protocols_shape(state: StreamState, how: dict[str, Any], blob: Json) -> None:
    assert encode(state, **how) == blob
    if blob != {"__ab_no_cursor_state_message": True}:
        assert decode(blob) == state


@pytest.mark.parametrize(
    "blob",
    [
        {"updated_at": "2024-01-05", "other": {"kept": [1]}},
        {"history": {"a.csv": "2024-01-01"}, "_ab_source_file_last_modified": "2024-01-01_a.csv"},
        {
            "use_global_cursor": False,
            "states": [{"partition": {"pid": 1, "parent_slice": {}}, "cursor": {"u": "2024-01-11"}}],
            "state": {"u": "2024-01-13"},
            "lookback_window": 1,
            "parent_state": {"parents": {"u": "2024-01-09"}},
        },
    ],
)
def test_what_the_peer_wrote_is_written_back_as_it_came(blob: Json) -> None:
    assert encode(decode(blob, cursor_field="updated_at"), incremental=True) == blob


def test_a_list_is_the_old_form_of_partitions() -> None:
    blob = [{"partition": {"pid": 1}, "cursor": {"u": 3}}]

    assert decode(blob) == StreamState({ONE: Checkpoint({"u": 3})})


def test_a_map_from_partition_value_to_cursor_is_read_where_the_field_is_known() -> None:
    assert decode({"1": {"u": 3}}, partition_field="pid") == StreamState({TWO: Checkpoint({"u": 3})})
    assert decode({"1": {"u": 3}}) == StreamState({WHOLE: Checkpoint({"1": {"u": 3}})})


def test_a_cursor_shared_by_all_partitions_stands_for_each() -> None:
    state = decode({"use_global_cursor": True, "state": {"u": 9}, "lookback_window": 5})

    assert state.of(ONE) == state.of(TWO) == Checkpoint({"u": 9})
    assert (state.shares_cursor, state.extra) == (True, {"lookback_window": 5})
    assert encode(state, incremental=True) == {"use_global_cursor": True, "state": {"u": 9}, "lookback_window": 5}


def test_a_table_knows_more_of_a_shared_cursor_than_a_message() -> None:
    edge = Edge("2024-01-05", {"digest": "2024-01-05"})
    shared = StreamState({WHOLE: Checkpoint({"u": "2024-01-05"}, edge), ONE: VALUE}, shares_cursor=True)

    assert decode(encode(shared, incremental=True, exact=True)) == shared
    assert encode(shared, incremental=True) == {"use_global_cursor": True, "state": {"u": "2024-01-05"}}


@pytest.mark.parametrize("beside", [{"parent_state": {"users": {"u": 8}}}, {"lookback_window": 5}])
def test_a_cursor_beside_the_state_of_parents_stands_for_each_partition(beside: Json) -> None:
    state = decode({"u": 9, **beside})

    assert state.of(ONE) == state.of(TWO) == Checkpoint({"u": 9})
    assert "u" not in state.extra
    assert decode(encode(state, incremental=True)) == state


def test_a_state_of_no_partition_that_says_how_long_it_took_is_of_none() -> None:
    assert not decode({"lookback_window": 1}).positions


def test_a_shared_cursor_survives_beside_the_partitions_that_have_left_it() -> None:
    state = StreamState({WHOLE: VALUE, ONE: PAGE})

    assert decode(encode(state, incremental=True)) == state


def test_a_shared_cursor_survives_beside_parents() -> None:
    state = StreamState({WHOLE: VALUE}, parents={"users": StreamState({WHOLE: VALUE})})

    assert decode(encode(state, incremental=True)) == state


def test_date_ranges_with_gaps_are_a_closed_front_and_windows_closed_early() -> None:
    blob: JsonObject = {
        "state_type": "date-range",
        "slices": [
            {"start": "2024-01-01", "end": "2024-01-05", "most_recent_cursor_value": "2024-01-04"},
            {"start": "2024-01-07", "end": "2024-01-09", "most_recent_cursor_value": None},
        ],
    }

    state = decode(blob, cursor_field="u")

    early = OpenSlice(Window("2024-01-07", "2024-01-09", "2024-01-09", last=False), Done())
    assert state.of(WHOLE) == Checkpoint({"u": "2024-01-04"}, None, Resume("2024-01-05", (early,)))


def test_a_date_range_is_written_as_a_cursor_value_as_manifests_do_in_airbyte() -> None:
    blob: JsonObject = {
        "slices": [{"start": "2024-01-01", "end": "2024-01-05", "most_recent_cursor_value": "2024-01-05"}],
        "state_type": "date-range",
        "legacy": {"u": "2023-12-01"},
    }

    assert encode(decode(blob, cursor_field="u"), incremental=True) == {"u": "2024-01-05"}


def test_a_date_range_without_a_record_goes_on_from_its_start() -> None:
    slices = [{"start": "2024-01-01", "end": "2024-01-05", "most_recent_cursor_value": None}]

    assert decode({"state_type": "date-range", "slices": slices}, cursor_field="u").of(WHOLE) == Checkpoint(
        {"u": "2024-01-01"}
    )


def test_a_window_cut_in_the_middle_keeps_its_page_on_the_protocol() -> None:
    window = Window("a", "b", "b", last=False)
    page = Checkpoint({"page": 3}, trail=Trail("digest", 1, 4))
    cut = Checkpoint({"u": "a"}, None, Resume("a", (OpenSlice(window, page, Edge("aa")),)))

    blob = encode(StreamState({WHOLE: cut}), incremental=True)

    assert blob["u"] == "a"
    assert decode(blob) == StreamState({WHOLE: cut})


def test_what_only_tables_need_stays_off_the_protocol() -> None:
    closed = Checkpoint({"u": 4}, Edge(4, {"digest": 4, "none": None}, {"digest": 2}, {"held": 1}), Resume(9))

    assert encode(StreamState({WHOLE: closed}), incremental=True) == {"u": 4, "_cdk": {"through": 9}}
    assert decode(encode(StreamState({WHOLE: closed}), incremental=True, exact=True)).of(WHOLE) == closed


MALFORMED = [
    (3, "state", 3),
    ("x", "state", "x"),
    ([3], "state[0]", 3),
    ({"states": 5}, "state.states", 5),
    ({"states": "text"}, "state.states", "text"),
    ({"states": [{"partition": {}}]}, "state.states[0]", {"partition": {}}),
    ({"states": [{"partition": {"a": 1}, "cursor": 7}]}, "state.states[0].cursor", 7),
    ({"states": [{"partition": {"a": "\ud800"}, "cursor": {}}]}, "state.states[0].partition", {"a": "\ud800"}),
    ({"states": [], "_cdk": ["after"]}, "state._cdk", ["after"]),
    ({"states": [], "_cdk": {"after": "a"}}, "state._cdk.after", "a"),
    ({"states": [], "_cdk": {"after": {}}}, "state._cdk.after", {}),
    ({"states": [], "_cdk": {"after": {"a": "\ud800"}}}, "state._cdk.after", {"a": "\ud800"}),
    ({"parent_state": [1]}, "state.parent_state", [1]),
    ({"parent_state": {"users": 5}}, "state.parent_state.users", 5),
    ({"use_global_cursor": True, "state": 5}, "state.state", 5),
    ({"slices": 5, "state_type": "date-range"}, "state.slices", 5),
    ({"slices": [{"start": 1}], "state_type": "date-range"}, "state.slices", [{"start": 1}]),
    ({"u": 1, "_cdk": 5}, "state._cdk", 5),
    ({"u": 1, "_cdk": {"through": 1, "slices": 5}}, "state._cdk.slices", 5),
    ({"u": 1, "_cdk": {"through": 1, "slices": [{}]}}, "state._cdk.slices[0]", {}),
    ({"u": 1, "_cdk": {"edge": 5}}, "state._cdk.edge", 5),
    *(
        ({"u": 1, "_cdk": {"edge": {"value": 1, "counts": counts}}}, "state._cdk.edge", {"value": 1, "counts": counts})
        for counts in (5, {"a": 0}, {"a": "2"}, {"a": True})
    ),
]


@pytest.mark.parametrize(("blob", "path", "found"), MALFORMED, ids=[path for _, path, _ in MALFORMED])
def test_a_malformed_state_is_refused_with_place_found_and_expected(blob: Json, path: str, found: Json) -> None:
    with pytest.raises(BadState) as refused:
        decode(blob, cursor_field="u")

    assert (refused.value.path, refused.value.actual) == (path, found)
    assert str(refused.value).startswith(f"{path}: found {found!r}, expected ")


def test_date_ranges_of_a_stream_without_a_cursor_are_refused() -> None:
    with pytest.raises(BadState, match="this stream has no cursor"):
        decode({"slices": [], "state_type": "date-range"})


NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=5)
WORDS = st.sampled_from(["states", "partition", "cursor", "slices", "state_type", "start", "end", "parent_state"])
WORDS |= st.sampled_from(
    ["_cdk", "after", "through", "window", "edge", "keys", "value", "done", "u", "use_global_cursor"]
)
WORDS |= st.sampled_from(["state", "most_recent_cursor_value", "__ab_full_refresh_sync_complete"])
KEYS = WORDS | st.text(max_size=5)
JSON = st.recursive(
    SCALARS | WORDS | st.just("date-range"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.sampled_from([None, "u"]), st.sampled_from([None, "pid"]))
def test_any_json_is_a_state_or_a_bad_state(blob: Json, cursor_field: str | None, partition_field: str | None) -> None:
    try:
        state = decode(blob, cursor_field=cursor_field, partition_field=partition_field)
    except BadState as refused:
        assert refused.path.startswith("state")  # noqa: PT017 - both ends are right
    else:
        again = encode(state, incremental=True, exact=True)
        assert decode(again, cursor_field=cursor_field).positions.keys() >= state.positions.keys() - {WHOLE}


TOKENS = st.dictionaries(st.sampled_from(["u", "page", "offset"]), SCALARS, min_size=1)
EDGES = st.none() | st.builds(Edge, SCALARS, st.dictionaries(st.text("0123456789abcdef", min_size=1), SCALARS))
OPEN: st.SearchStrategy[Position] = st.builds(Start) | st.builds(Done) | st.builds(Checkpoint, TOKENS)
WINDOWS = st.builds(Window, SCALARS, SCALARS, SCALARS, st.booleans())
RESUMES = st.none() | st.builds(
    Resume, SCALARS, st.lists(st.builds(OpenSlice, WINDOWS, OPEN, EDGES), max_size=3).map(tuple), SCALARS
)
POSITIONS: st.SearchStrategy[Position] = (
    st.builds(Start) | st.builds(Done) | st.builds(Checkpoint, TOKENS, EDGES.filter(lambda e: not e or e.keys), RESUMES)
)
PARTITIONS = st.builds(Partition, st.dictionaries(st.text(max_size=3), SCALARS, min_size=1, max_size=3))
STATES = st.builds(
    StreamState,
    st.dictionaries(PARTITIONS, POSITIONS, min_size=1, max_size=4),
    st.dictionaries(st.text(max_size=3), st.builds(StreamState, st.dictionaries(PARTITIONS, POSITIONS, min_size=1))),
    after=st.none() | PARTITIONS,
)


@given(STATES)
@settings(max_examples=50, deadline=None)
def test_the_exact_form_loses_nothing(state: StreamState) -> None:
    assert decode(encode(state, incremental=True, exact=True)) == state


@given(POSITIONS)
def test_the_exact_form_of_a_plain_stream_loses_nothing(position: Position) -> None:
    assert decode(encode(StreamState({WHOLE: position}), incremental=True, exact=True)).of(WHOLE) == position


@given(STATES)
@settings(max_examples=50, deadline=None)
def test_the_protocols_form_is_stable(state: StreamState) -> None:
    once = encode(state, incremental=True)

    assert encode(decode(once), incremental=True) == once


def test_fields_that_a_state_needs_for_itself_are_reserved_where_it_has_them() -> None:
    token: Json = {"states": 1, "slices": 2, "state_type": "page", OWN_KEY: 3}

    assert reserved_names(token, partitioned=False) == [OWN_KEY, "states"]
    assert reserved_names(token, partitioned=True) == [OWN_KEY]
    assert reserved_names({**token, "state_type": "date-range"}, partitioned=False) == [OWN_KEY, "slices", "states"]
