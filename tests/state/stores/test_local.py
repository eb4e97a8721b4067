import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from cdk import ConfigError, StateConflict, TransientError
from cdk.state import StateKey
from cdk.state.stores.local import LocalStore
from cdk.state.stores.opening import open_objects

KEY = StateKey("shop")
HOLDER = """
import sys
from cdk.state import StateKey
from cdk.state.stores.local import LocalStore
with LocalStore(sys.argv[1]).lease(StateKey("shop")):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "deep" / "state")
    store.create(KEY, 1, b"{}")
    store.put_blob(KEY, "1-aa", b"data")
    with store.lease(KEY):
        pass
    modes = {path.relative_to(tmp_path): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}

    assert len(modes) == 9
    assert {mode for path, mode in modes.items() if (tmp_path / path).is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if (tmp_path / path).is_file()} == {0o600}


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_an_object_takes_the_place_of_the_one_before(tmp_path: Path, scheme: str) -> None:
    store = open_objects(f"{scheme}{tmp_path}/a/b")
    store.put("job.json", b"first, and longer")
    store.put("job.json", b"second")

    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["job.json"]
    assert (tmp_path / "a/b/job.json").read_bytes() == b"second"
    assert (tmp_path / "a/b/job.json").stat().st_mode & 0o077 == 0


def test_an_object_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.put("job.json", b"first")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TransientError, match="No space left on device"):
        store.put("job.json", b"second")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first"]


def test_drafts_of_cut_writers_are_ignored(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create(KEY, 1, b"{}")
    (tmp_path / "default/shop/log/.tmp-cut").write_bytes(b"{")
    (tmp_path / "default/other/log").mkdir(parents=True)
    (tmp_path / "default/other/log/.tmp-cut").write_bytes(b"{")

    assert store.numbers(KEY) == [1]
    assert list(store.keys()) == [KEY]


def test_no_draft_stays_behind(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create(KEY, 1, b"{}")
    store.create(KEY, 1, b"{}")

    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["000000000001.json"]


def test_nobody_reads_half_a_file_where_there_are_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", source, None, target)

    store, seen = LocalStore(tmp_path, link=no_links), list[bytes | None]()
    opened = os.fdopen

    def look(file: int, mode: str) -> BinaryIO:
        seen.append(store.read(KEY, 1))
        return cast("BinaryIO", opened(file, mode))

    monkeypatch.setattr(os, "fdopen", look)
    assert store.create(KEY, 1, b"{}")
    assert not store.create(KEY, 1, b"[]")

    assert seen == [None, b"{}"]
    assert store.read(KEY, 1) == b"{}"


def test_a_full_disk_stores_nothing_and_is_told(tmp_path: Path) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", source, None, target)

    store = LocalStore(tmp_path, link=full)
    with pytest.raises(TransientError, match="No space left on device") as failed:
        store.create(KEY, 1, b"{}")

    assert failed.value.path == store.address_of(KEY, 1)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_place_that_is_no_folder_is_told_as_a_mistake_of_the_set_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = LocalStore(tmp_path / "file")

    with pytest.raises(ConfigError, match="the state store cannot use this file"):
        store.create(KEY, 1, b"{}")
    with pytest.raises(ConfigError, match="the state store cannot use this file"):
        store.numbers(KEY)


def test_a_held_lease_is_refused_with_its_holder(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    refused = pytest.raises(StateConflict, match=f"process {os.getpid()} runs the pipeline 'default/shop'")
    with store.lease(KEY), refused, store.lease(KEY):
        pass


def test_death_frees_a_lease(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        refused = pytest.raises(StateConflict, match=f"process {holder.pid} runs")
        with refused, store.lease(KEY):
            pass
        holder.kill()
    with store.lease(KEY):
        store.create(KEY, 1, b"{}")

    assert store.numbers(KEY) == [1]
