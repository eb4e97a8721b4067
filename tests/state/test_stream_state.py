"""Where each partition of a stream stands."""

from cdk import Checkpoint, Done, Partition, Start, StreamState
from cdk.state.slice import WHOLE

A, B = Partition.of(shop="a"), Partition.of(shop="b")


def test_a_partition_never_met_stands_at_its_start_whatever_the_others_say() -> None:
    state = StreamState({A: Done()})

    assert (state.of(A), state.of(B)) == (Done(), Start())


def test_a_partition_without_a_position_of_its_own_stands_at_the_shared_one() -> None:
    state = StreamState({WHOLE: Checkpoint({"u": 1}), A: Done()})

    assert (state.of(A), state.of(B)) == (Done(), Checkpoint({"u": 1}))


def test_a_state_with_another_position_is_a_copy() -> None:
    state = StreamState({A: Done()}, extra={"kept": 1})

    assert state.with_(B, Done()) == StreamState({A: Done(), B: Done()}, extra={"kept": 1})
    assert state.of(B) == Start()
