"""A stream whose files are lost again and again fails, and one that loses some now and then does not."""

from pathlib import Path

import pytest

from cdk.lake.delta.pinned_table import FilesMissing
from cdk.lake.storage.folder import LocalFolder
from cdk.sync.tables.stream_commit import LOST_IN_A_ROW, FileLosses
from tests.spark.users_table import opened


def test_files_may_be_missing_twice_in_a_row(root: Path) -> None:
    opened(root)
    losses, gone = FileLosses(LocalFolder(root), "users"), FilesMissing(["a"], 1, stream="users", path="t")
    for _ in range(3):
        for _ in range(LOST_IN_A_ROW - 1):
            # A loss before a commit and that commit's own are one.
            losses.before_commit(gone)
            losses.committed(gone)
        losses.committed()
    for _ in range(LOST_IN_A_ROW - 1):
        losses.before_commit(gone)
        losses.committed()

    with pytest.raises(FilesMissing):
        losses.note(gone)
