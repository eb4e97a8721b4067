"""Tables are opened or created through one handle, whatever their folder is called."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdk.base.errors import ConfigError
from tests.lake.full_disk import full_disk
from tests.spark.users_table import opened, saved, state, wrote


def test_of_many_who_create_a_table_at_once_one_describes_it(tmp_path: Path) -> None:
    together = threading.Barrier(6)

    def create(root: Path) -> None:
        together.wait(timeout=20)
        opened(root)

    for n in range(10):
        root = tmp_path / str(n)
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(create, [root] * 6))

        assert [file.name for file in (root / "_delta_log").iterdir()] == ["00000000000000000000.json"]


def test_of_a_table_that_finds_no_room_the_error_says_so(tmp_path: Path) -> None:
    root = tmp_path / "users"

    with full_disk(100), pytest.raises(ConfigError) as caught:
        opened(root)

    assert str(caught.value) == f"{root}: the target cannot be written: File too large"
    opened(root)


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b", "ü", "[a]", "100%"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    opened(root).commit(saved(1), wrote(root, 1))

    assert state(root) == 1
    assert DeltaTable(str(root)).version() == 1


def test_a_folder_that_delta_would_take_for_another_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot open a path with %"):
        opened(tmp_path / "a%20b")

    assert list(tmp_path.iterdir()) == []
