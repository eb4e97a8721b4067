"""State messages in, each changed state out, once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import BadState, Checkpoint, Done, Json, Partition, Position, Start, StreamState
from cdk.protocol.catalog import StreamDescriptor
from cdk.protocol.messages import AirbyteGlobalState, AirbyteStateMessage, AirbyteStateType, AirbyteStreamState
from cdk.state.manager import ConnectorStateManager
from cdk.state.slice import WHOLE
from tests.samples import Orders, Plain, Users

ORDERS = Orders()


def one(name: str, blob: Json, namespace: str | None = None) -> AirbyteStreamState:
    return AirbyteStreamState(stream_descriptor=StreamDescriptor(name=name, namespace=namespace), stream_state=blob)


def message(name: str, blob: Json, namespace: str | None = None) -> AirbyteStateMessage:
    return AirbyteStateMessage(type=AirbyteStateType.STREAM, stream=one(name, blob, namespace))


def at(value: str) -> StreamState:
    return StreamState({WHOLE: Checkpoint({"updated_at": value})})


def test_a_later_message_of_a_stream_replaces_an_earlier() -> None:
    manager = ConnectorStateManager([message("orders", {"updated_at": "1"}), message("orders", {"updated_at": "2"})])

    assert manager.get_stream_state("orders") == {"updated_at": "2"}


def test_streams_of_other_namespaces_are_other_streams() -> None:
    manager = ConnectorStateManager([message("orders", {"a": 1}, "eu"), message("orders", {"a": 2})])

    assert manager.get_stream_state("orders", "eu") == {"a": 1}
    assert manager.get_stream_state("orders") == {"a": 2}
    assert manager.get_stream_state("orders", "us") == {}


def test_a_message_without_a_type_counts() -> None:
    manager = ConnectorStateManager([AirbyteStateMessage(stream=one("orders", {"a": 1}))])

    assert manager.get_stream_state("orders") == {"a": 1}


def test_the_streams_of_a_global_state_count() -> None:
    state = AirbyteGlobalState(stream_states=[one("orders", {"a": 1}), one("users", None)])

    manager = ConnectorStateManager([AirbyteStateMessage(type=AirbyteStateType.GLOBAL, global_=state)])

    assert manager.get_stream_state("orders") == {"a": 1}
    assert manager.get_stream_state("users") == {}


def test_a_shared_state_is_left_alone_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    state = AirbyteGlobalState(stream_states=[one("orders", {"a": 1})], shared_state={"lsn": 1})

    manager = ConnectorStateManager([AirbyteStateMessage(global_=state)])

    assert manager.get_stream_state("orders") == {"a": 1}
    assert "state[0].global.shared_state: streams of this kit do not use" in caplog.text
    assert "lsn" not in caplog.text


def test_a_legacy_map_names_the_streams() -> None:
    legacy = AirbyteStateMessage(type=AirbyteStateType.LEGACY, data={"orders": {"a": 1}})

    assert ConnectorStateManager([legacy]).get_stream_state("orders") == {"a": 1}


def test_a_message_with_nothing_in_it_is_refused() -> None:
    with pytest.raises(BadState, match=r"state\[0\]: found \{\}, expected a state with"):
        ConnectorStateManager([AirbyteStateMessage()])


def test_a_malformed_state_is_refused_with_the_streams_name() -> None:
    with pytest.raises(BadState, match="state of orders: found 5"):
        ConnectorStateManager([message("orders", 5)]).restore(ORDERS)


def test_what_was_checkpointed_is_what_is_restored() -> None:
    manager = ConnectorStateManager()
    manager.checkpoint(ORDERS, at("2024-01-02"))

    assert manager.restore(ORDERS) == at("2024-01-02")


def test_a_state_is_said_once() -> None:
    manager = ConnectorStateManager()

    assert manager.checkpoint(ORDERS, at("1")) == message("orders", {"updated_at": "1"})
    assert manager.checkpoint(ORDERS, at("1")) is None
    assert manager.checkpoint(ORDERS, at("2")) == message("orders", {"updated_at": "2"})
    assert manager.checkpoint(ORDERS, at("2"), final=True) is None


def test_a_read_that_changed_nothing_still_says_its_final_state_once() -> None:
    manager = ConnectorStateManager([message("orders", {"updated_at": "1"})])

    assert manager.checkpoint(ORDERS, at("1")) is None
    assert manager.checkpoint(ORDERS, at("1"), final=True) == message("orders", {"updated_at": "1"})
    assert manager.checkpoint(ORDERS, at("1"), final=True) is None


def test_the_end_of_a_full_refresh_depends_on_whether_it_can_resume() -> None:
    manager, done = ConnectorStateManager(), StreamState({WHOLE: Done()})

    assert manager.checkpoint(Plain(), done) is None
    assert manager.checkpoint(Plain(), done, final=True) == message("plain", {"__ab_no_cursor_state_message": True})
    assert manager.checkpoint(Users(), done) == message("users", {"__ab_full_refresh_sync_complete": True})


def test_states_are_handed_out_as_copies() -> None:
    given = message("orders", {"nested": {"a": 1}})
    manager = ConnectorStateManager([given])

    manager.get_stream_state("orders")["nested"]["a"] = 2

    assert manager.get_stream_state("orders") == {"nested": {"a": 1}}


def test_a_message_does_not_follow_the_value_it_was_made_from() -> None:
    manager, value = ConnectorStateManager(), {"nested": {"a": 1}}
    manager.update_state_for_stream("orders", None, value)
    said = manager.create_state_message("orders", None)

    value["nested"]["a"] = 2

    assert said == message("orders", {"nested": {"a": 1}})
    assert manager.get_stream_state("orders") == {"nested": {"a": 1}}


def test_a_stream_never_seen_has_an_empty_message() -> None:
    assert ConnectorStateManager().create_state_message("users", "eu") == message("users", {}, "eu")


class Parts(Users):
    """A stream of partitions."""

    name = "parts"


POOL: list[Position] = [Start(), Done(), Checkpoint({"page": 1}), Checkpoint({"page": 2})]
STEPS = st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from(POOL), min_size=1), min_size=1, max_size=5)


@given(STEPS)
def test_the_states_of_partitions_are_those_of_a_manager_that_remembers_nothing(
    steps: list[dict[str, Position]],
) -> None:
    manager = ConnectorStateManager()
    for step in steps:
        state = StreamState({Partition.of(part=name): position for name, position in step.items()})

        manager.checkpoint(Parts(), state, final=True)
        fresh = ConnectorStateManager().checkpoint(Parts(), state, final=True)

        assert fresh is not None
        assert fresh.stream is not None
        assert manager.get_stream_state("parts") == fresh.stream.stream_state
