"""A commit whose answer is an error counts where the table has it, and not where it has not."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from cdk.base.errors import ConfigError, StateConflict, StateError, TransientError
from cdk.base.values import Json
from cdk.lake.delta.failed_commit import repeat_if_changed
from cdk.lake.parquet.writer import DataFile
from tests.lake.full_disk import full_disk
from tests.spark.users_table import ids, opened, saved, state, wrote


class Unsure(DeltaTable):
    """A handle whose commit fails after it has happened, or before."""

    happens = True

    def create_write_transaction(self, *args: Json, **kwargs: Json) -> None:
        if self.happens:
            super().create_write_transaction(*args, **kwargs)
        raise CommitFailedError("the connection broke")


class Broken(Unsure):
    happens = False


class NoSpace(DeltaTable):
    def create_write_transaction(self, *_: Json, **__: Json) -> None:
        raise OSError(28, "No space left on device")


def test_a_commit_that_is_acknowledged_late_counts(root: Path) -> None:
    table = opened(root)
    table._handle = Unsure(str(root))
    table.commit(saved({"page": 1}), wrote(root, 1))
    table.commit(saved({"page": 2}), wrote(root, 2))

    assert (ids(root), state(root)) == ([1, 2], {"page": 2})


@pytest.mark.parametrize(("handle", "why"), [(Broken, "the connection broke"), (NoSpace, "No space left on device")])
def test_a_commit_that_did_not_happen_is_an_error_and_may_be_tried_again(
    root: Path, handle: type[DeltaTable], why: str
) -> None:
    table = opened(root)
    table.commit(saved({"page": 1}), wrote(root, 1))
    file: Sequence[DataFile] = wrote(root, 2)
    table._handle = handle(str(root))

    with pytest.raises(StateError, match=why) as caught:
        table.commit(saved({"page": 2}), file)

    assert not isinstance(caught.value, StateConflict)
    assert (ids(root), state(root)) == ([1], {"page": 1})
    table.commit(saved({"page": 2}), file)
    assert (ids(root), state(root)) == ([1, 2], {"page": 2})


@pytest.mark.parametrize("most", [100, 700], ids=["the state", "the log"])
def test_of_a_commit_that_finds_no_room_the_error_says_so(root: Path, most: int) -> None:
    table = opened(root)
    table.commit(saved({"page": 1}), wrote(root, 1))
    file = wrote(root, 2)

    with full_disk(most), pytest.raises(ConfigError) as caught:
        table.commit(saved({"page": 2}), file)

    assert str(caught.value) == f"{root}: the target cannot be written: File too large"
    assert (ids(root), state(root)) == ([1], {"page": 1})
    table.commit(saved({"page": 2}), file)
    assert (ids(root), state(root)) == ([1, 2], {"page": 2})


def test_a_commit_that_others_outrun_each_time_is_to_be_made_later(root: Path) -> None:
    table = opened(root)
    table.commit(saved(1), [*wrote(root, 1), *wrote(root, 2)])

    def attempt() -> None:
        gone = table.files("id")[0]
        write_deltalake(str(root), pa.table({"id": [9]}), mode="append", schema_mode="merge")
        table.commit(saved(2), wrote(root, 3), remove=[gone])

    with pytest.raises(TransientError, match=r"each of 5 attempts .* Run it at a time") as caught:
        repeat_if_changed(table, attempt)

    assert "isolation" not in str(caught.value)
    assert (ids(root), state(root)) == ([1, 2, *[9] * 5], 1)
