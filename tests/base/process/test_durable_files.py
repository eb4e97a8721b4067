import stat
from pathlib import Path

import pytest

from cdk.base.process.durable_files import replace_file


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path, durable: bool) -> None:  # noqa: FBT001
    file = tmp_path / "file.json"
    for content in (b"old", b"new"):
        replace_file(file, content, mode=0o600, durable=durable)

    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [file]


def test_what_a_killed_write_left_is_no_hindrance(tmp_path: Path) -> None:
    file, draft = tmp_path / "file.json", tmp_path / "file.new"
    draft.write_bytes(b"half")
    replace_file(file, b"whole", draft=draft)

    assert file.read_bytes() == b"whole"
    assert not draft.exists()


def test_where_a_file_cannot_be_replaced_what_was_there_stays(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        replace_file(folder, b"content")

    assert [*tmp_path.iterdir()] == [folder]
