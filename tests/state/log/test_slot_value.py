import pytest

from cdk import BadState
from cdk.base.values import Json
from cdk.state import Kind, StateValue
from cdk.state.log.canonical_json import digest, dumps_canonical
from cdk.state.log.slot_value import frozen


def renamed(value: Json) -> Json:
    return {"cursor": value["since"]}


def wrapped(value: Json) -> Json:
    return {"progress": value}


TODAY = Kind("cdk/stream", 3, {1: renamed, 2: wrapped})


def test_a_kind_reads_what_it_wrote() -> None:
    assert TODAY.read(TODAY.of({"progress": {}}), "state") == {"progress": {}}


def test_old_forms_are_migrated_one_version_at_a_time() -> None:
    assert TODAY.read(StateValue("cdk/stream", 1, {"since": 4}), "state") == {"progress": {"cursor": 4}}
    assert TODAY.read(StateValue("cdk/stream", 2, {"cursor": 4}), "state") == {"progress": {"cursor": 4}}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (StateValue("odf/etag", 1, ""), "state kind: found 'odf/etag', expected 'cdk/stream'"),
        (StateValue("cdk/stream", 4, {}), "state version: found 4, expected at most 3: a newer kit"),
        (StateValue("cdk/stream", 0, {}), "state version: found 0, expected 3: nothing migrates it"),
    ],
)
def test_what_a_kind_does_not_know_is_refused_and_never_taken_for_nothing(found: StateValue, said: str) -> None:
    with pytest.raises(BadState, match=said):
        TODAY.read(found, "state")


@pytest.mark.parametrize("slot", ["users", "", ":users", "Stream:users", "stream:a\nb", "stream:" + "x" * 401])
def test_names_that_are_no_slots_are_refused(slot: str) -> None:
    with pytest.raises(BadState, match="expected 'use:name'"):
        frozen(slot, TODAY.of(1))


@pytest.mark.parametrize("slot", ["global:", "stream:public.users", "entities:warehouse.tables", "bookmark:ü/x"])
def test_names_of_slots(slot: str) -> None:
    assert frozen(slot, TODAY.of(1)).text == b"1"


def test_a_digest_covers_kind_version_and_value() -> None:
    made = frozen("stream:users", StateValue("cdk/stream", 1, {"a": 1}))

    assert made.digest == digest(dumps_canonical(["cdk/stream", 1, {"a": 1}], "x"))
    assert len({frozen("a:", StateValue(k, v, x)).digest for k in "kl" for v in (1, 2) for x in (1, "1")}) == 8
