"""Backoff strategies that custom code makes wait as those of manifests do."""

import pytest
import requests

from cdk.base.errors import RateLimited
from cdk.compat.airbyte.http.error_handlers import (
    BackoffStrategy,
    ConstantBackoffStrategy,
    ExponentialBackoffStrategy,
    WaitTimeFromHeaderBackoffStrategy,
)


def response(**headers: str) -> requests.Response:
    made = requests.Response()
    made.status_code, made.url = 429, "https://api.test/items"
    made.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return made


CONFIG = {"wait": "7"}


@pytest.mark.parametrize(
    ("strategy", "waits"),
    [
        (ConstantBackoffStrategy("{{ config['wait'] }}", {}, CONFIG), [7, 7]),
        (ExponentialBackoffStrategy({}, CONFIG, factor=3), [6, 12]),
        (WaitTimeFromHeaderBackoffStrategy("Retry-After", {}, CONFIG), [30, 30]),
        (WaitTimeFromHeaderBackoffStrategy("X-Wait", {}, CONFIG, regex="[0-9]+"), [5, 5]),
        (WaitTimeFromHeaderBackoffStrategy("X-Reset", {}, CONFIG, regex="[0-9]+"), [None, None]),
        (WaitTimeFromHeaderBackoffStrategy("X-Missing", {}, CONFIG), [None, None]),
    ],
)
def test_a_strategy_waits_as_long_as_its_settings_say(strategy: BackoffStrategy, waits: list[float | None]) -> None:
    answer = response(Retry_After="30", X_Wait="5 seconds", X_Reset="in 5 seconds")

    assert [strategy.backoff_time(answer, attempt_count=attempt) for attempt in (1, 2)] == waits


def test_jitter_is_added_to_a_wait() -> None:
    strategy = ConstantBackoffStrategy(10, {}, CONFIG, jitter_range_in_seconds=1.0)
    waits = {strategy.backoff_time(response(), attempt_count=1) for _ in range(20)}

    assert len(waits) > 1
    assert all(wait is not None and 10 <= wait <= 12 for wait in waits)


def test_a_wait_that_is_too_long_ends_the_read() -> None:
    strategy = WaitTimeFromHeaderBackoffStrategy("Retry-After", {}, CONFIG, max_waiting_time_in_seconds=20)

    with pytest.raises(RateLimited, match="asks to wait 30 s, expected less than 20 s"):
        strategy.backoff_time(response(Retry_After="30"), attempt_count=1)
