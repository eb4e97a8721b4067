from typing import Any

import pytest

from cdk.base.errors import RateLimited, Timeout
from cdk.rest.errors.wait_strategies import as_seconds, constant, exponential, from_header, until_header
from tests.rest.api import NOON, response

NOW = NOON.timestamp()
GONE = Timeout("gone")


def test_a_constant_wait_may_be_longer_by_chance() -> None:
    assert constant(7)(GONE, 3) == 7
    assert constant(7, jitter=2, random=lambda: 0.5)(GONE, 3) == 9


def test_an_exponential_wait_doubles_from_twice_its_factor() -> None:
    assert [exponential()(GONE, attempt) for attempt in (1, 2, 3)] == [10, 20, 40]
    assert exponential(1, jitter=3, random=lambda: 0.5)(GONE, 1) == 5


@pytest.mark.parametrize(
    ("header", "pattern", "expected"),
    [
        ("3", None, 3),
        (" 3.5 ", None, 3.5),
        ("soon", None, None),
        ("inf", None, None),
        ("12 s", "[0-9]+", 12),
        ("in 12 s", "[0-9]+", None),
        ("12 s", "([0-9])[0-9] s", None),
        ("12", "x", 12),
    ],
)
def test_a_header_tells_seconds(header: str, pattern: str | None, expected: float | None) -> None:
    assert from_header("X-Wait", pattern=pattern)(response(headers={"x-wait": header}), 1) == expected


def test_without_the_header_nothing_is_told() -> None:
    assert from_header("X-Wait")(response(), 1) is None
    assert from_header("X-Wait")(GONE, 1) is None


def test_a_wait_as_long_as_the_longest_is_too_long() -> None:
    wait = from_header("X-Wait", longest=600)

    assert wait(response(headers={"X-Wait": "599"}), 1) == 599
    with pytest.raises(RateLimited, match=r"asks to wait 600 s, expected less than 600 s") as caught:
        wait(response(headers={"X-Wait": "600"}), 1)
    assert caught.value.wait == 600


@pytest.mark.parametrize(
    ("header", "options", "expected"),
    [
        (NOW + 50, {}, 50),
        (NOW - 50, {}, None),
        (NOW - 50, {"least": 5}, 5),
        (NOW + 2, {"least": 50}, 50),
        ("soon", {"least": 5}, 5),
        ("soon", {}, None),
        (f"{NOW + 50:.0f} at", {"pattern": "[0-9]+"}, 50),
        (f"at {NOW + 50}", {"pattern": "at"}, None),
        (NOW + 50, {"least": 60, "longest": 61}, 60),
    ],
)
def test_a_header_tells_a_time(header: Any, options: dict[str, Any], expected: float | None) -> None:
    wait = until_header("X-Reset", clock=lambda: NOON, **options)

    assert wait(response(headers={"X-Reset": str(header)}), 1) == expected


def test_a_time_too_far_away_ends_the_read() -> None:
    with pytest.raises(RateLimited):
        until_header("X-Reset", longest=600, clock=lambda: NOON)(response(headers={"X-Reset": str(NOW + 700)}), 1)


@pytest.mark.parametrize("header", [NOW + 50, "soon"])
def test_a_shortest_wait_that_is_too_long_ends_the_read(header: Any) -> None:
    wait = until_header("X-Reset", least=60, longest=60, clock=lambda: NOON)

    with pytest.raises(RateLimited, match="asks to wait 60 s"):
        wait(response(headers={"X-Reset": str(header)}), 1)


def test_the_shortest_wait_holds_without_an_answer_too() -> None:
    assert until_header("X-Reset", least=5)(GONE, 1) == 5


@pytest.mark.parametrize(("value", "expected"), [("1.5", 1.5), (True, 1), ([1], None), (None, None), ("nan", None)])
def test_what_counts_as_seconds(value: Any, expected: float | None) -> None:
    assert as_seconds(value) == expected
