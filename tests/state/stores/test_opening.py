import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from cdk import ConfigError
from cdk.base.values import Json
from cdk.state import LogStore, StateKey, open_store
from cdk.state.stores import opening
from cdk.state.stores.local import LocalStore
from cdk.state.stores.memory import MemoryStore
from cdk.state.stores.opening import open_objects
from cdk.state.stores.sql import SqlStore

KEY = StateKey("shop")
POINT = EntryPoint("ours", "tests.state.stores.test_opening:our_store", opening.GROUP)
BROKEN = EntryPoint("broken", "no_such_package_of_anybody:Store", opening.GROUP)


def our_store(config: Mapping[str, Json]) -> LogStore:
    store = MemoryStore()
    store.location = config["at"]
    return store


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two installed packages with a store each; the import of one of them fails."""
    for name, point in (("ours", POINT), ("broken", BROKEN)):
        folder = tmp_path / f"{name}_states-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-states\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[{point.group}]\n{point.name} = {point.value}\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_the_kinds_of_stores_by_their_settings(tmp_path: Path) -> None:
    def local(path: Path) -> Mapping[str, Json]:
        return {"type": "local", "config": {"path": str(path)}}

    assert isinstance(open_store(local(tmp_path)), LocalStore)
    assert isinstance(open_store({"type": "memory"}), MemoryStore)
    assert isinstance(open_store({"type": "memory", "config": {}}), MemoryStore)
    with closing(open_store({"type": "sql", "config": {"url": f"sqlite:///{tmp_path}/a.db"}})) as store:
        assert isinstance(store, SqlStore)


def test_the_kinds_of_stores_by_their_urls(tmp_path: Path) -> None:
    for url in (str(tmp_path / "a"), f"file://{tmp_path}/a", f"file:{tmp_path}/a"):
        assert open_store(url).address_of(KEY, 1) == f"{tmp_path}/a/default/shop/log/000000000001.json"
    assert open_store(f"file://{tmp_path}/a%20b").address_of(KEY, 1).startswith(f"{tmp_path}/a b/default")
    with pytest.raises(ConfigError, match="expected three slashes"):
        open_store("file://state/a")
    assert isinstance(open_store("memory:"), MemoryStore)
    with closing(open_store(f"sqlite:///{tmp_path}/a.db")) as store:
        assert isinstance(store, SqlStore)
    assert isinstance(open_store("postgresql://user@host/db", writes=False), SqlStore)
    assert (
        open_store("s3://bucket/folder", writes=False).address_of(KEY, 1).startswith("s3://bucket/folder/default/shop")
    )


def test_objects_are_at_the_urls_of_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    for url in (str(tmp_path / "a"), f"file://{tmp_path}/a", f"file:{tmp_path}/a", "a"):
        store = open_objects(url)
        store.put("x", url.encode())
        assert (tmp_path / "a" / "x").read_bytes() == url.encode()
    assert isinstance(open_objects("memory:"), MemoryStore)
    assert open_objects("s3://bucket/folder").location == "s3://bucket/folder"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_store_that_is_only_looked_at_is_not_touched(tmp_path: Path) -> None:
    open_store(str(tmp_path / "state"), writes=False)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "where", "said"),
    [
        ({}, "state_provider.type", "found null, expected a string"),
        ({"type": "lokal"}, "state_provider.type", "unknown type 'lokal'; did you mean 'local'?"),
        ({"type": "local", "confg": {}}, "state_provider", "unknown key 'confg'; did you mean 'config'?"),
        ({"type": "local"}, "state_provider.config.path", "found null, expected a string"),
        ({"type": "local", "config": {"path": 3}}, "state_provider.config.path", "found a number, expected a string"),
        (
            {"type": "local", "config": {"paht": "x"}},
            "state_provider.config",
            "unknown key 'paht'; did you mean 'path'?",
        ),
        ({"type": "local", "config": "x"}, "state_provider.config", "found a string, expected keys and values"),
        (["local"], "state_provider", "found a list, expected keys and values"),
        ("ftp://host/x", "ftp://host/x", "the object store cannot be opened"),
    ],
)
def test_settings_that_are_wrong_are_told_with_their_place(settings: Json, where: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_store(settings)

    assert refused.value.path == where
    assert said in refused.value.message


@pytest.mark.usefixtures("packages")
def test_packages_bring_stores_of_their_own() -> None:
    store = open_store({"type": "ours", "config": {"at": "ours:"}})

    assert store.address_of(KEY, 1).startswith("ours:")


@pytest.mark.usefixtures("packages")
def test_a_package_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no_such_package_of_anybody.*it belongs to the package 'broken-states'"):
        open_store({"type": "broken"})


@pytest.mark.parametrize(
    ("settings", "module", "said"),
    [("sqlite:///x.db", "sqlalchemy", r"spark-cdk\[sql\]"), ("s3://bucket/x", "obstore", r"spark-cdk\[object\]")],
)
def test_a_missing_extra_is_named(settings: str, module: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.startswith(("cdk.state.stores.sql", "cdk.state.stores.cloud"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ConfigError, match=f"pip install '{said}'"):
        open_store(settings)


def test_opening_a_folder_loads_no_database_and_no_cloud(tmp_path: Path) -> None:
    program = f"import sys; from cdk.state import open_store; open_store({str(tmp_path)!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert {"sqlalchemy", "obstore", "pyarrow", "pyspark"} & set(loaded.stdout.split()) == set()
