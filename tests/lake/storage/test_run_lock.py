import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdk.base.errors import ConfigError, StateConflict
from cdk.lake.storage.folder import LocalFolder
from cdk.lake.storage.run_lock import last_completed, note_completed, only_run, unfinished_sync

HOLD = """
import sys
from pathlib import Path
from cdk.lake.storage.folder import LocalFolder
from cdk.lake.storage.run_lock import last_completed, note_completed, only_run
with only_run(Path(sys.argv[1]), "shop") as sync:
    print(sync, flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(target: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that holds the lock until its input ends, and the id of its sync."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()


def test_a_second_holder_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    with (
        holder(tmp_path) as (process, _),
        pytest.raises(
            StateConflict, match=f"another sync of the pipeline 'shop' .* process {process.pid} on "
        ) as caught,
        only_run(tmp_path, "shop"),
    ):
        pass

    assert caught.value.path == str(tmp_path / "_cdk" / "shop.lock")


def test_a_second_holder_in_the_same_process_is_refused_too(tmp_path: Path) -> None:
    with (
        only_run(tmp_path, "shop"),
        pytest.raises(StateConflict, match=f"process {os.getpid()}"),
        only_run(tmp_path, "shop"),
    ):
        pass


def test_a_refused_run_leaves_the_holder_and_its_id_alone(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, sync):
        for _ in range(2):
            with pytest.raises(StateConflict, match=f"process {process.pid}"), only_run(tmp_path, "shop"):
                pass
        process.kill()
        process.wait()
        with only_run(tmp_path, "shop") as rest:
            assert rest == sync


def test_the_lock_is_free_when_its_holder_dies_and_the_next_run_is_the_rest_of_the_sync(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, sync):
        process.kill()
        process.wait()

    with only_run(tmp_path, "shop") as rest:
        assert rest == sync
    with only_run(tmp_path, "shop") as following:
        assert following != sync


def test_a_run_that_ends_by_an_error_is_continued_by_the_next(tmp_path: Path) -> None:
    syncs = []

    def run() -> None:
        with only_run(tmp_path, "shop") as sync:
            syncs.append(sync)
            raise ConfigError("the pipeline is wrong")

    for _ in range(2):
        with pytest.raises(ConfigError):
            run()

    assert len(set(syncs)) == 1


def test_a_run_that_says_it_has_a_rest_is_continued_by_the_next_and_names_no_process(tmp_path: Path) -> None:
    with only_run(tmp_path, "shop", lambda: True) as sync:
        pass

    assert unfinished_sync(LocalFolder(tmp_path), "shop") == (sync, False)
    with only_run(tmp_path, "shop", lambda: False) as rest:
        assert rest == sync
    with only_run(tmp_path, "shop") as following:
        assert following != sync


def test_pipelines_do_not_lock_each_other_out(tmp_path: Path) -> None:
    with only_run(tmp_path, "shop") as first, only_run(tmp_path, "shop.2") as second:
        assert first != second


def test_a_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match="cannot be written: Not a directory"), only_run(tmp_path / "file", "shop"):
        pass


def test_a_full_disk_keeps_the_name_of_the_sync_that_was_cut(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, sync):
        process.kill()
        process.wait()

    # No file of this process may grow: what it writes is refused as on a disk that is full.
    full = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n{HOLD}"
    refused = subprocess.run(
        [sys.executable, "-c", full, str(tmp_path)], input="", capture_output=True, text=True, check=False
    )

    assert "shop.sync: the target cannot be written: File too large" in refused.stderr
    with only_run(tmp_path, "shop") as rest:
        assert rest == sync
    assert [path.name for path in (tmp_path / "_cdk").iterdir()] == ["shop.lock"]


def test_each_stream_has_the_time_of_its_last_complete_read(tmp_path: Path) -> None:
    target, noon = LocalFolder(tmp_path), datetime(2026, 1, 1, 12, tzinfo=UTC)
    before = last_completed(target, "shop")
    note_completed(target, "shop", {"orders": noon, "users": noon})
    note_completed(target, "shop", {"orders": noon + timedelta(hours=1)})
    note_completed(target, "other", {"users": noon + timedelta(hours=2)})

    assert before == {}
    assert last_completed(target, "shop") == {"orders": noon + timedelta(hours=1), "users": noon}


@pytest.mark.parametrize("content", ["no json", "[]", '{"orders": 1}', '{"orders": "soon"}', ""])
def test_times_that_cannot_be_read_are_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "_cdk").mkdir()
    (tmp_path / "_cdk" / "shop.completed").write_text(content)

    assert last_completed(LocalFolder(tmp_path), "shop") == {}
