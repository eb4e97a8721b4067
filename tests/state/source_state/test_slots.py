from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import BadState
from cdk.base.errors import CdkError
from cdk.state import (
    ETAG,
    POLLING,
    SourceState,
    StateKey,
    StateLog,
    StateValue,
    export_sources,
    from_odf,
    import_sources,
    open_session,
    slot_of,
    to_odf,
)
from cdk.state.stores.memory import MemoryStore

KEY = StateKey("shop")
TEXTS = st.text(st.characters(codec="utf-8"))
KINDS = st.sampled_from(["odf/etag", "cdk/file-set", "acme/x+json", "acme/x+json+json"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
VALUES = st.builds(StateValue, KINDS, st.integers(0, 3), JSON)
WRAPPED = VALUES.map(lambda value: to_odf("x", value).value)


@given(VALUES)
def test_every_value_comes_back_from_its_three_texts(value: StateValue) -> None:
    once = to_odf("orders", value)
    twice = to_odf("orders", StateValue(once.kind, 1, once.value))

    assert from_odf(once) == value
    assert from_odf(twice) == StateValue(once.kind, 1, once.value)


@given(st.builds(SourceState, st.just("orders"), KINDS | TEXTS, WRAPPED | TEXTS))
def test_every_three_texts_come_back_from_their_value(state: SourceState) -> None:
    assert to_odf("orders", from_odf(state)) == state


@pytest.mark.parametrize(
    "text",
    [
        '{"value":"a","version":1}',
        '{"version":2,"value":1}',
        '{"value": 1, "version": 2}',
        '{"value":1,"version":true}',
        '{"value":1,"version":2,"more":3}',
        "[1]",
    ],
)
def test_json_that_this_kit_would_not_have_written_stays_a_text(text: str) -> None:
    state = SourceState("orders", "acme/x+json", text)

    assert from_odf(state) == StateValue("acme/x+json", 1, text)
    assert to_odf("orders", from_odf(state)) == state


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (StateValue("odf/etag", 1, 'W/"95c5"'), ("odf/etag", 'W/"95c5"')),
        (StateValue("acme/position", 1, ""), ("acme/position", "")),
        (StateValue("acme/position", 2, "a"), ("acme/position+json", '{"value":"a","version":2}')),
        (StateValue("cdk/offsets", 1, {"b": 1, "a": 2}), ("cdk/offsets+json", '{"value":{"a":2,"b":1},"version":1}')),
        (StateValue("acme/x+json", 1, "{"), ("acme/x+json", "{")),
    ],
)
def test_plain_texts_stay_as_they_are_and_others_become_json(value: StateValue, texts: tuple[str, str]) -> None:
    assert to_odf("default", value) == SourceState("default", *texts)


def test_several_sources_lie_side_by_side_and_apart_from_other_slots() -> None:
    log = StateLog(MemoryStore(), KEY)
    states = [SourceState("default", "odf/etag", '"a"'), SourceState("eu:west", "acme/unknown", "x")]
    with open_session(log) as session:
        session.propose("stream:users", StateValue("cdk/stream", 1, {}))
        import_sources(session, states)
        session.commit("final")
    with open_session(log) as session:
        import_sources(session, [SourceState("default", "odf/etag", '"b"')])
        session.commit("final")

    with open_session(log) as session:
        assert export_sources(session) == [SourceState("default", "odf/etag", '"b"'), states[1]]
        assert session.slots == ["source:default", "source:eu:west", "stream:users"]


def test_an_unknown_kind_is_carried_through_any_number_of_commits() -> None:
    log = StateLog(MemoryStore(), KEY)
    unknown = StateValue("acme/resume", 7, {"deep": [1, {"x": None}]})
    with open_session(log) as session:
        session.propose(slot_of("theirs"), unknown)
        session.commit("final")
    for number in range(10):
        with open_session(log) as session:
            session.propose(slot_of("ours"), ETAG.of(str(number)))
            assert session.commit("final") is not None

    with open_session(log) as session:
        assert session.value("source:theirs") == unknown


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 401])
def test_a_name_that_no_slot_can_have_is_refused(name: str) -> None:
    with open_session(StateLog(MemoryStore(), KEY)) as session, pytest.raises(BadState):
        import_sources(session, [SourceState(name, "odf/etag", "x")])


@pytest.mark.parametrize("value", [{1}, float("nan"), {"a": (1,)}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(CdkError):
        to_odf("default", StateValue("acme/x", 1, value))


def test_the_source_that_a_dataset_polls_keeps_its_name() -> None:
    state = SourceState(POLLING, "odf/etag", "v1")
    log = StateLog(MemoryStore(), KEY)
    with open_session(log) as session:
        import_sources(session, [state])
        session.commit("final")
    with open_session(log) as session:
        assert (POLLING, export_sources(session)) == ("odf/polling", [state])
