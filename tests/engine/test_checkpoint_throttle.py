from datetime import UTC, datetime, timedelta

from cdk.engine.checkpoint_throttle import CheckpointThrottle


class Hand:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.at = datetime(2024, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


def test_the_first_state_may_be_said_at_once() -> None:
    assert CheckpointThrottle(Hand()).due()


def test_the_next_waits_for_records_that_weigh_as_much() -> None:
    pace = CheckpointThrottle(Hand())
    pace.wrote_state(100)
    pace.wrote_records(99)
    assert not pace.due()

    pace.wrote_records(1)

    assert pace.due()


def test_or_for_half_a_minute() -> None:
    clock = Hand()
    pace = CheckpointThrottle(clock)
    pace.wrote_state(10**9)
    clock.at += timedelta(seconds=29)
    assert not pace.due()

    clock.at += timedelta(seconds=1)

    assert pace.due()

    pace.wrote_state(10**9)
    assert not pace.due()


def test_states_that_grow_with_every_page_weigh_no_more_than_the_records_and_one_state() -> None:
    pace, records, states = CheckpointThrottle(Hand()), 0, 0
    for page in range(10_000):
        pace.wrote_records(700)
        records += 700
        if pace.due():
            pace.wrote_state(100 * page)
            states += 100 * page

    assert states <= records + 100 * 10_000
