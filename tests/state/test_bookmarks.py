"""Bookmarks: the programs of people who come from amorphicutils run as they are."""

import json
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import BadState, ConfigError, StateConflict, StateError
from cdk.state import StateData, StateKey, StateLog, StateStore
from cdk.state.stores.local import LocalStore
from tests.state.stores.servers import s3

JOB = "nightly_orders"
POSITION = {"epoch_time": 156234987}

EXAMPLE = """
from cdk import state as statemanagement
state_mgm = statemanagement.StateStore(lz_bucket, dlz_bucket, state_domain, state_dataset_name=state_dataset_name)
state_data = state_mgm.get_or_create(test_job_name)
state_data.add_element(test_statedata_key_1, test_statedata_value_1)
state_mgm.update(state_data)
state_mgm.complete(state_data)
"""

CALLS = """
from cdk.state import StateStore
state_store = StateStore("lz_bucket", "dlz_bucket", "test_state_domian",
                         "test_state_dataset", "test_user", "others")
state_data = state_store.get_or_create("test_job")
state_data.add_element("DatasetId", {"epoch_time": 156234987})
state_store.complete(state_data)

state_store = StateStore("lz_bucket", "dlz_bucket", "test_state_domian",
                         "test_state_dataset", "test_user", "others")
state_data = state_store.get_or_create("test_job")
state_data.add_element("DatasetId", {"epoch_time": 156234988})
state_store.update(state_data)
"""


def store(folder: Path) -> StateStore:
    return StateStore(str(folder / "landing"), str(folder / "lake"), "sales", "state")


def copies(folder: Path) -> Mapping[str, Any]:
    found = (folder / "landing/sales/state").iterdir()
    return {path.name: json.loads(path.read_text()) for path in found}


def records(folder: Path, job: str = JOB) -> list[str]:
    """The status of every record, oldest first."""
    log = StateLog(LocalStore(folder / "lake/sales/state"), StateKey(job, "bookmarks"))
    return [record.status for record in log.history()][::-1]


def test_the_example_works_line_for_line_in_a_process_after_the_other(tmp_path: Path) -> None:
    names = {
        "lz_bucket": str(tmp_path / "landing"),
        "dlz_bucket": str(tmp_path / "lake"),
        "state_domain": "sales",
        "state_dataset_name": "state",
        "test_job_name": JOB,
        "test_statedata_key_1": "sales.orders",
    }
    for value in (POSITION, {"epoch_time": 156320000}):
        told = json.dumps({**names, "test_statedata_value_1": value})
        program = f"import json\nglobals().update(json.loads({told!r}))\n{EXAMPLE}"
        subprocess.run([sys.executable, "-c", program], check=True)

        assert store(tmp_path).completed(JOB) == {"sales.orders": value}
    newest = {"sales.orders": {"epoch_time": 156320000}}
    assert copies(tmp_path) == {f"{JOB}_running.json": newest, f"{JOB}_completed.json": newest}


def test_the_calls_of_the_reference_work_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(CALLS, {})  # noqa: S102 - as they are written

    found = StateStore("lz_bucket", "dlz_bucket", "test_state_domian", "test_state_dataset")
    assert found.completed("test_job") == {"DatasetId": {"epoch_time": 156234987}}
    assert found.running("test_job") == {"DatasetId": {"epoch_time": 156234988}}


def test_a_job_is_running_from_its_update_until_it_is_completed(tmp_path: Path) -> None:
    mine, other = store(tmp_path), store(tmp_path)
    data = mine.get_or_create(JOB)
    assert (other.running(JOB), other.completed(JOB)) == (None, None)

    data.add_element("a", 1)
    mine.update(data)
    assert (other.running(JOB), other.completed(JOB)) == ({"a": 1}, None)
    assert copies(tmp_path) == {f"{JOB}_running.json": {"a": 1}}

    data.add_element("a", 2)
    mine.complete(data)
    assert (other.running(JOB), other.completed(JOB)) == (None, {"a": 2})
    assert copies(tmp_path) == {f"{JOB}_running.json": {"a": 1}, f"{JOB}_completed.json": {"a": 2}}

    again = other.get_or_create(JOB)
    other.update(again)
    assert (mine.running(JOB), mine.completed(JOB)) == ({"a": 2}, {"a": 2})


def test_what_a_cut_job_stored_is_what_the_next_one_gets(tmp_path: Path) -> None:
    data = store(tmp_path).get_or_create(JOB)
    data.add_element("a", 1)
    store(tmp_path).complete(data)
    data.add_element("a", 2)
    store(tmp_path).update(data)

    assert store(tmp_path).get_or_create(JOB).elements == {"a": 2}


def test_values_that_stay_make_no_record(tmp_path: Path) -> None:
    data = store(tmp_path).get_or_create(JOB)
    data.add_element("a", 1)
    for _ in range(3):
        store(tmp_path).update(data)
    for _ in range(3):
        store(tmp_path).complete(data)

    assert records(tmp_path) == ["partial", "final"]


def test_a_job_that_remembers_nothing_can_be_completed(tmp_path: Path) -> None:
    store(tmp_path).complete(store(tmp_path).get_or_create(JOB))

    assert store(tmp_path).completed(JOB) == {}


def test_elements_that_are_removed_are_gone_for_good(tmp_path: Path) -> None:
    data = store(tmp_path).get_or_create(JOB)
    data.add_element("a", 1)
    data.add_element("b", 1)
    data.add_element("c", 1)
    store(tmp_path).complete(data)
    data.remove_element("b")
    store(tmp_path).complete(data)
    assert store(tmp_path).get_or_create(JOB).elements == {"a": 1, "c": 1}

    data.reset()
    data.add_element("d", 1)
    store(tmp_path).complete(data)
    assert store(tmp_path).completed(JOB) == {"d": 1}


def test_jobs_do_not_see_each_other(tmp_path: Path) -> None:
    data = store(tmp_path).get_or_create(JOB)
    data.add_element("a", 1)
    store(tmp_path).complete(data)

    assert store(tmp_path).get_or_create("other").elements == {}


def test_of_two_processes_with_one_job_the_second_is_refused(tmp_path: Path) -> None:
    first, second = (store(tmp_path).get_or_create(JOB) for _ in range(2))
    first.add_element("a", 1)
    second.add_element("a", 2)
    store(tmp_path).update(first)

    with pytest.raises(StateConflict):
        store(tmp_path).update(second)
    assert copies(tmp_path) == {f"{JOB}_running.json": {"a": 1}}
    assert store(tmp_path).running(JOB) == {"a": 1}


def test_a_copy_that_cannot_be_written_is_said_and_written_with_the_next_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = store(tmp_path)
    data = mine.get_or_create(JOB)
    data.add_element("a", 1)
    (tmp_path / "landing").write_text("a file where the folder should be")
    mine.update(data)
    mine.complete(data)

    assert store(tmp_path).completed(JOB) == {"a": 1}
    assert records(tmp_path) == ["partial", "final"]
    assert "nightly_orders are stored, but their copy is not: " in caplog.text
    assert "landing/sales/state/nightly_orders_completed.json: the state store cannot use" in caplog.text

    (tmp_path / "landing").unlink()
    mine.complete(data)
    assert (copies(tmp_path), records(tmp_path)) == ({f"{JOB}_completed.json": {"a": 1}}, ["partial", "final"])


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ((1, 2), "bookmark:a:"),
        ({"users": [{"seen": {1}}]}, "bookmark:a.users[0].seen:"),
        (datetime(2024, 1, 1, tzinfo=UTC), "bookmark:a:"),
        (float("nan"), "bookmark:a:"),
        ({1: 2}, "bookmark:a:"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(value: Any, place: str) -> None:
    data = StateData()
    data.add_element("a", 1)

    with pytest.raises(BadState) as refused:
        data.add_element("a", value)
    assert str(refused.value).startswith(place)
    assert data.elements == {"a": 1}


def test_a_value_is_replaced_unless_that_is_refused() -> None:
    data = StateData()
    data.add_element("a", 1, replace=False)
    data.add_element("a", 1, replace=False)
    with pytest.raises(StateError, match="the key has another value"):
        data.add_element("a", 2, replace=False)
    assert data.get_element("a") == 1

    data.add_element("a", 2)
    assert data.get_element("a") == 2


def test_a_value_is_copied_in_and_out() -> None:
    data, value = StateData(), {"ids": [1]}
    data.add_element("a", value)
    value["ids"].append(2)
    data.get_element("a")["ids"].append(3)

    assert data.elements == {"a": {"ids": [1]}}


def test_a_key_that_is_not_there_can_be_removed_and_asked_for() -> None:
    data = StateData()
    data.remove_element("DatasetId")

    assert data.get_element("DatasetId") is None
    assert data.get_element("DatasetId", 0) == 0


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_bytes_and_maps_are_taken_back_as_they_were(elements: dict[str, Any]) -> None:
    data, other = StateData(), StateData()
    other.add_element("old", 1)
    data.from_bytes(elements)
    other.from_bytes(data.to_bytes())

    assert data.elements == elements
    assert other.to_bytes() == data.to_bytes()


@pytest.mark.parametrize("given", [b"[1]", b"{", {"a": {1}}, {1: 2}, [1]])
def test_what_is_no_map_of_json_changes_nothing(given: Any) -> None:
    data = StateData()
    data.add_element("a", 1)

    with pytest.raises(BadState):
        data.from_bytes(given)
    assert data.elements == {"a": 1}


def test_data_of_no_job_cannot_be_stored(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="expected one from `get_or_create"):
        store(tmp_path).update(StateData())


@pytest.mark.parametrize(("domain", "dataset"), [("", "state"), ("../up", "state"), ("sales", "a/b"), ("sales", ".")])
def test_names_that_would_leave_their_folder_are_refused(tmp_path: Path, domain: str, dataset: str) -> None:
    with pytest.raises(ConfigError):
        StateStore(str(tmp_path), str(tmp_path), domain, dataset)


def test_a_name_of_a_job_that_would_leave_its_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.\./other"):
        store(tmp_path).get_or_create("../other")


def test_records_say_who_stored_them(tmp_path: Path) -> None:
    bookmarks = StateStore(str(tmp_path / "landing"), str(tmp_path / "lake"), "sales", "state", "ann", "others")
    bookmarks.complete(bookmarks.get_or_create(JOB))

    head = StateLog(LocalStore(tmp_path / "lake/sales/state"), StateKey(JOB, "bookmarks")).head()
    assert head is not None
    assert (head.run["username"], head.run["file_type"]) == ("ann", "others")


def test_buckets_may_be_those_of_an_object_store() -> None:
    with s3() as options:
        buckets = ("s3://states/landing", "s3://states/lake/")
        mine, other = (StateStore(*buckets, "sales", "state", options=options) for _ in range(2))
        data = mine.get_or_create(JOB)
        data.add_element("sales.orders", POSITION)
        mine.update(data)
        assert other.running(JOB) == {"sales.orders": POSITION}

        mine.complete(data)
        assert other.completed(JOB) == {"sales.orders": POSITION}
        assert other.get_or_create(JOB).elements == {"sales.orders": POSITION}
