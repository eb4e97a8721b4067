"""States that people and platforms bring: refused, or warned of, before anything is read."""

import logging

import pytest

from cdk import Checkpoint, DatetimeCursor, Json, Partition, StreamState
from cdk.base.errors import BadState
from cdk.engine.read import read
from cdk.rest import Offset, RestSource, resource
from cdk.state.slice import WHOLE
from cdk.state.wire import decode
from cdk.streams.state_check import check_fields, check_partitions, check_tokens, check_values
from tests.samples import DAY0, Events, Orders, ShopOrders, Users


def of(value: Json) -> StreamState:
    return decode(value)


@pytest.mark.parametrize("value", ["yesterday", 17.5e30, ["2024-01-01"], True])
def test_a_value_that_the_cursor_cannot_read_is_refused(value: Json) -> None:
    with pytest.raises(BadState) as caught:
        check_values(Orders(), of({"updated_at": value}))

    expected = "a timestamp written as %Y-%m-%dT%H:%M:%SZ or ISO 8601"
    assert caught.value.message == f"found {value!r}, expected {expected}"
    assert caught.value.path == "state of orders.updated_at"


class Days(Orders):
    cursor = DatetimeCursor("day", start="2024-01-01", formats=["%Y-%m-%d", "%d/%m/%Y", "%Y-%m-%d"])


def test_every_format_of_a_cursor_is_named_once() -> None:
    expected = "expected a timestamp written as %Y-%m-%d or %d/%m/%Y or ISO 8601"
    with pytest.raises(BadState, match=expected):
        check_values(Days(), of({"day": "tomorrow"}))
    with pytest.raises(BadState, match=expected):
        next(Days.cursor.windows("tomorrow", DAY0))


def test_a_count_is_a_whole_number() -> None:
    with pytest.raises(BadState, match="found 'many', expected an integer"):
        check_values(Events(), of({"seq": "many"}))


@pytest.mark.parametrize(("value", "word"), [(None, "null"), ("", "empty")])
def test_a_value_that_is_none_is_warned_of(value: Json, word: str, caplog: pytest.LogCaptureFixture) -> None:
    check_values(Orders(), of({"updated_at": value}))

    assert caplog.messages == [f"state of orders.updated_at is {word}: it is read from its start"]


@pytest.mark.parametrize("blob", [{}, None, {"updated_at": "2024-01-01T00:00:00Z"}])
def test_a_state_that_can_be_gone_on_from_is_no_reason_to_warn(blob: Json, caplog: pytest.LogCaptureFixture) -> None:
    check_values(Orders(), of(blob))

    assert caplog.messages == []


@pytest.mark.parametrize(
    ("known", "warnings"),
    [
        ([{"customer": 1}, {"customer": 2}], 1),
        ([{"shop": "a", "customer": 1}], 1),
        ([{"customer": 1}, {"shop": "gone"}], 0),
        ([{"shop": "gone"}], 0),
    ],
)
def test_partitions_by_another_field_are_warned_of(
    known: list[Json], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    cursor = {"updated_at": "2024-01-02T00:00:00Z"}
    state = of({"states": [{"partition": fields, "cursor": cursor} for fields in known]})

    list(read(ShopOrders(), state))

    assert caplog.text.count("none resumes from the state") == warnings


def test_an_unknown_field_is_refused_with_the_one_that_is_meant() -> None:
    with pytest.raises(BadState, match="did you mean 'updated_at'"):
        check_fields(Orders(), of({"updatd_at": "2024-01-01T00:00:00Z"}))


@pytest.mark.parametrize("blob", [{"updated_at": "2024-01-01", "page": 3}, {"updated_at": ""}, {"page": 3}])
def test_a_state_is_the_value_of_the_cursor_and_nothing_else(blob: Json) -> None:
    with pytest.raises(BadState, match="a value of 'updated_at' and nothing else"):
        check_fields(Orders(), of(blob))


def test_a_field_beside_partitions_is_refused() -> None:
    states = [{"partition": {"shop": "a"}, "cursor": {"updated_at": "2024-01-01T00:00:00Z"}}]
    check_fields(ShopOrders(), of({"states": states, "lookback_window": 3}))
    with pytest.raises(BadState, match="state of shop_orders\\.updated"):
        check_fields(ShopOrders(), of({"states": states, "updated": 3}))


def test_what_a_stream_without_a_cursor_keeps_is_its_own() -> None:
    check_fields(Users(), of({"page": 3, "anything": {}}))
    check_values(Users(), of({"page": "x"}))


def test_a_state_that_is_yet_to_come_is_warned_of_by_name(caplog: pytest.LogCaptureFixture) -> None:
    state = StreamState({WHOLE: Checkpoint({"updated_at": "2099-01-01T00:00:00Z"})})

    with caplog.at_level(logging.WARNING, logger="cdk"):
        assert [item for item in read(Orders(), state) if not isinstance(item, StreamState)] == []

    (line,) = caplog.messages
    assert line.startswith("orders: updated_at of its state is 2099-01-01T00:00:00Z, which lies after")


def test_a_state_without_the_cursor_is_warned_of_in_words(caplog: pytest.LogCaptureFixture) -> None:
    state = StreamState({Partition.of(shop="a"): Checkpoint({"page": 3, "size": 2})})

    with caplog.at_level(logging.WARNING, logger="cdk"):
        list(read(ShopOrders(), state))

    (line,) = caplog.messages
    assert line == (
        "shop_orders: the state of {\"shop\":\"a\"} has 'page', 'size', but no value of the cursor 'updated_at'; "
        "it is read from its start"
    )


def test_a_page_token_of_another_paginator_is_refused() -> None:
    listed = resource("users", "/users", paginator=Offset(2))
    (stream,) = RestSource("http://127.0.0.1:1", listed).streams({})

    check_tokens(stream, of({"offset": 4}))
    with pytest.raises(BadState, match=r"found \{'page': 4\}, expected a token like") as caught:
        check_tokens(stream, of({"page": 4}))
    assert (caught.value.path, caught.value.stream) == ("state of users", "users")
    with pytest.raises(BadState, match="expected a state without partitions"):
        check_partitions(stream, of(shops("a")), StreamState())


def shops(*names: Json, field: str = "shop") -> Json:
    cursor = {"updated_at": "2024-01-02T00:00:00Z"}
    return {"states": [{"partition": {field: name}, "cursor": cursor} for name in names]}


@pytest.mark.parametrize("blob", [shops("a", 1), shops("a", field="store")])
def test_a_partition_unlike_those_of_the_table_is_refused(blob: Json) -> None:
    with pytest.raises(BadState, match=r'expected a partition like \{"shop":"a"\}, with the same fields and types'):
        check_partitions(ShopOrders(), of(blob), of(shops("a", "b")))


@pytest.mark.parametrize(
    ("blob", "replaced"),
    [
        (shops("c"), shops("a")),
        (shops(None), shops("a")),
        (shops("a"), shops(None)),
        (shops(1), None),
        ({}, shops("a")),
    ],
)
def test_a_partition_may_be_new(blob: Json, replaced: Json) -> None:
    check_partitions(ShopOrders(), of(blob), of(replaced))


def test_a_partition_is_listed_once() -> None:
    later = {"partition": {"shop": "a"}, "cursor": {"updated_at": "2024-01-03T00:00:00Z"}}
    twice = [*shops("a")["states"], later]

    with pytest.raises(BadState, match="expected a partition that is listed once") as caught:
        of({"states": twice})
    assert caught.value.path == "state.states[1].partition"
    assert of({"states": [later, later]}) == of({"states": [later]})
