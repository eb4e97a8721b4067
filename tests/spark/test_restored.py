"""A restored table goes on from the rows it then has."""

from pathlib import Path

import orjson
import pytest
from deltalake import DeltaTable

from cdk.base.errors import StateConflict, StateError
from cdk.base.values import Json
from tests.spark.users_table import ids, opened, saved, state, wrote


def test_a_restored_table_has_the_state_of_its_rows(root: Path) -> None:
    table = opened(root)
    versions = []
    for i in range(4):
        table.commit(saved({"page": i}), wrote(root, i))
        versions.append(table.version)
    DeltaTable(str(root)).restore(versions[1])

    assert (ids(root), state(root)) == ([0, 1], {"page": 1})
    again = opened(root)
    again.commit(saved({"page": 2}), wrote(root, 20))
    assert (ids(root), state(root)) == ([0, 1, 20], {"page": 2})


def test_a_restore_can_be_restored_and_undone(root: Path) -> None:
    table = opened(root)
    versions = []
    for i in range(4):
        table.commit(saved({"page": i}), wrote(root, i))
        versions.append(table.version)
    for back, page in [(versions[2], 2), (versions[0], 0), (versions[3], 3), (versions[3] + 1, 2)]:
        DeltaTable(str(root)).restore(back)
        assert (ids(root), state(root)) == (list(range(page + 1)), {"page": page})


def test_a_table_restored_to_before_its_first_commit_has_no_state(root: Path) -> None:
    table = opened(root)
    empty = table.version
    table.commit(saved({"page": 1}), wrote(root, 1))
    DeltaTable(str(root)).restore(empty)

    assert (ids(root), state(root)) == ([], None)


def test_a_run_that_began_before_a_restore_is_fenced_by_the_run_after_it(root: Path) -> None:
    table = opened(root)
    table.commit(saved(1), wrote(root, 1))
    version = table.version
    table.commit(saved(2), wrote(root, 2))
    DeltaTable(str(root)).restore(version)
    opened(root).commit(saved(3), wrote(root, 3))

    with pytest.raises(StateConflict):
        table.commit(saved(4), wrote(root, 4))

    assert (ids(root), state(root)) == ([1, 3], 3)


@pytest.mark.parametrize(("parameters", "why"), [({}, "restore it to a version"), ({"version": "0"}, "gone from the")])
def test_a_restore_that_does_not_tell_its_state_is_an_error(root: Path, parameters: Json, why: str) -> None:
    table = opened(root)
    table.commit(saved(1), wrote(root, 1))
    log = root / "_delta_log"
    info = {"commitInfo": {"operation": "RESTORE", "operationParameters": parameters}}
    (log / f"{table.version + 1:020}.json").write_bytes(orjson.dumps(info))
    DeltaTable(str(root)).create_checkpoint()
    (log / f"{0:020}.json").unlink()

    with pytest.raises(StateError, match=why):
        opened(root)
