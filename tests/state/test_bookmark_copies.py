import os
from pathlib import Path

import pytest

from cdk import ConfigError, TransientError
from cdk.state.bookmark_copies import open_copies


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_copy_takes_the_place_of_the_one_before(tmp_path: Path, scheme: str) -> None:
    copies = open_copies(f"{scheme}{tmp_path}/a/b")
    copies.put("job.json", b"first, and longer")
    copies.put("job.json", b"second")

    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["job.json"]
    assert (tmp_path / "a/b/job.json").read_bytes() == b"second"
    assert (tmp_path / "a/b/job.json").stat().st_mode & 0o077 == 0


def test_a_copy_that_cannot_be_made_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = open_copies(str(tmp_path))
    copies.put("job.json", b"first")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TransientError, match="No space left on device"):
        copies.put("job.json", b"second")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first"]


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "landing").write_text("")

    with pytest.raises(ConfigError, match=r"landing/job\.json: the copy cannot be written"):
        open_copies(str(tmp_path / "landing")).put("job.json", b"{}")


def test_a_store_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be opened"):
        open_copies("gopher://states/copies")
