"""What the contract of all stores does not say of one in a Delta table: neighbours, lost answers, strangers' tables."""

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema

from cdk import BadState, ConfigError, Json, TransientError
from cdk.base.times.clock import system_clock
from cdk.lake.storage import delta_row_table as delta_rows
from cdk.lake.storage.delta_state_store import DeltaStore, open_delta
from cdk.lake.storage.folder import LocalFolder
from cdk.lake.storage.object_store import folder_at
from cdk.state.log import Kind, StateLog, open_session
from cdk.state.stores import StateKey, open_store
from tests.spark.object_store import SECRET, ObjectStore, Trouble, object_store
from tests.state.stores.servers import needs_s3rver, s3rver

KEY, OTHER = StateKey("shop"), StateKey("shop", "test")
COUNTER = Kind("test/counter")
COMMIT = r"PUT /lake/.*/_delta_log/0*[1-9]\d*\.json"

WRITER = """
import sys
from pathlib import Path
from cdk.base.times.clock import system_clock
from cdk.lake.storage.delta_state_store import DeltaStore
from cdk.lake.storage.folder import LocalFolder
from cdk.state.stores import StateKey
store = DeltaStore(LocalFolder(Path(sys.argv[1])))
print("ready", flush=True)
sys.stdin.readline()
for seq in range(1, 21):
    if store.create(StateKey("shop"), seq, sys.argv[2].encode()):
        print(seq, flush=True)
"""


@dataclass(frozen=True)
class Interrupted(LocalFolder):
    """A disk on which something else happens just after a file was written, before it is committed."""

    meanwhile: Callable[[], object] = lambda: None

    def write(self, name: str, content: bytes, *, private: bool = False) -> None:
        super().write(name, content, private=private)
        self.meanwhile()


def prepared(folder: Path) -> DeltaStore:
    store = DeltaStore(LocalFolder(folder))
    store.prepare()
    return store


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def named(folder: Path) -> list[str]:
    """The files that the table's log names."""
    return sorted(pa.table(DeltaTable(str(folder)).get_add_actions())["path"].to_pylist())


def parquet(columns: Mapping[str, Json]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def once(does: Callable[[], object]) -> Callable[[], object]:
    """The same, but only the first time."""
    left = [does]
    return lambda: left.pop()() if left else None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "states"


@pytest.fixture
def store(folder: Path) -> DeltaStore:
    return prepared(folder)


def test_who_is_overtaken_between_the_look_and_the_commit_is_told_no(folder: Path, store: DeltaStore) -> None:
    late = DeltaStore(Interrupted(folder, meanwhile=once(lambda: store.create(KEY, 1, b'"first"'))))

    assert not late.create(KEY, 1, b'"late"')
    assert late.read(KEY, 1) == b'"first"'
    assert files(folder) == named(folder)


def test_who_is_overtaken_by_another_record_looks_again_and_is_told_yes(folder: Path, store: DeltaStore) -> None:
    late = DeltaStore(Interrupted(folder, meanwhile=once(lambda: store.create(OTHER, 1, b'"other"'))))

    assert late.create(KEY, 1, b'"late"')
    assert (store.read(KEY, 1), store.read(OTHER, 1)) == (b'"late"', b'"other"')
    assert files(folder) == named(folder)


def test_who_slept_until_the_log_was_cleaned_up_is_told_no(folder: Path, store: DeltaStore) -> None:
    def others() -> None:
        for seq in range(1, 30):
            store.create(KEY, seq, b'"others"')
        table = DeltaTable(str(folder))
        table.create_checkpoint()
        table.cleanup_metadata()

    DeltaTable(str(folder)).alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    sleeper = DeltaStore(Interrupted(folder, meanwhile=once(others)))

    assert not sleeper.create(KEY, 1, b'"sleeper"')
    assert not (folder / "_delta_log" / f"{2:020}.json").exists()
    assert sleeper.numbers(KEY) == list(range(1, 30))


def test_of_two_processes_one_creates_each_record(folder: Path, store: DeltaStore) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), f'"{name}"'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    won = [process.communicate(timeout=120)[0].split() for process in running]

    assert sorted(int(seq) for seqs in won for seq in seqs) == list(range(1, 21))
    for name, seqs in zip("ab", won, strict=True):
        assert {store.read(KEY, int(seq)) for seq in seqs} <= {f'"{name}"'.encode()}
    assert files(folder) == named(folder)


def test_the_log_keeps_checkpoints_and_loses_old_commits_and_no_record(folder: Path, store: DeltaStore) -> None:
    before = DeltaStore(LocalFolder(folder))
    before.numbers(KEY)
    DeltaTable(str(folder)).alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    for seq in range(1, 26):
        store.create(KEY, seq, f"{seq}".encode())
    log = list((folder / "_delta_log").iterdir())

    assert len([path for path in log if path.suffix == ".json"]) < 12
    for reader in (before, DeltaStore(LocalFolder(folder))):
        assert [reader.read(KEY, seq) for seq in reader.numbers(KEY)] == [f"{seq}".encode() for seq in range(1, 26)]


def test_a_vacuum_that_keeps_nothing_removes_no_record(folder: Path, store: DeltaStore) -> None:
    for seq in (1, 2, 3):
        store.create(KEY, seq, b"{}")
        store.put_blob(KEY, f"{seq}-aa", b"data")
    store.drop(KEY, [1], ["1-aa"])
    (folder / "part-of-a-run-that-was-cut.parquet").touch()
    vacuum(folder)

    assert [store.read(KEY, seq) for seq in (1, 2, 3)] == [None, b"{}", b"{}"]
    assert [store.blob(KEY, name) for name in ("1-aa", "2-aa", "3-aa")] == [None, b"data", b"data"]
    assert len(files(folder)) == 4


def vacuum(folder: Path) -> None:
    table = DeltaTable(str(folder))
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)


def test_a_vacuum_between_a_file_and_its_commit_costs_no_record(folder: Path, store: DeltaStore) -> None:
    hurried = DeltaStore(Interrupted(folder, meanwhile=once(lambda: vacuum(folder))))

    assert hurried.create(KEY, 1, b'"whole"')
    assert store.read(KEY, 1) == b'"whole"'


def test_files_that_a_neighbour_writes_anew_are_found(folder: Path, store: DeltaStore) -> None:
    for seq in (1, 2):
        store.create(KEY, seq, f"{seq}".encode())
        store.put_blob(KEY, f"{seq}-aa", b"\x00\xff")
    before = named(folder)
    DeltaTable(str(folder)).optimize.z_order(["record"])
    assert set(before) & set(named(folder)) == set()
    vacuum(folder)

    assert [store.read(KEY, seq) for seq in (1, 2)] == [b"1", b"2"]
    assert store.blob(KEY, "2-aa") == b"\x00\xff"
    store.drop(KEY, [1], ["1-aa"])
    assert (store.numbers(KEY), list(store.blobs(KEY))) == ([2], ["2-aa"])


def test_there_is_nothing_for_optimize_to_join(folder: Path, store: DeltaStore) -> None:
    for seq in range(1, 6):
        store.create(KEY, seq, b"{}")

    assert DeltaTable(str(folder)).optimize.compact()["numFilesRemoved"] == 0


def test_what_is_dropped_leaves_no_file(folder: Path, store: DeltaStore) -> None:
    for seq in (1, 2):
        store.create(KEY, seq, b"{}")
        store.put_blob(KEY, f"{seq}-aa", b"data")
    store.drop(KEY, [1, 2], ["1-aa", "2-aa"])

    assert files(folder) == []


def test_a_drop_that_is_overtaken_drops_all_the_same(folder: Path, store: DeltaStore) -> None:
    store.create(KEY, 1, b"{}")
    overtake = once(lambda: store.create(KEY, 2, b"{}"))

    def clock() -> datetime:
        overtake()
        return system_clock()

    DeltaStore(LocalFolder(folder), clock=clock).drop(KEY, [1], [])

    assert store.numbers(KEY) == [2]
    assert files(folder) == named(folder)


def test_who_is_overtaken_again_and_again_gives_up_and_leaves_nothing_half_done(
    folder: Path, store: DeltaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_rows, "_ATTEMPTS", 3)
    seqs = count(1)

    def clock() -> datetime:
        store.create(OTHER, next(seqs), b"{}")
        return system_clock()

    with pytest.raises(TransientError, match="3 commits of others came first"):
        DeltaStore(LocalFolder(folder), clock=clock).create(KEY, 1, b"{}")

    assert (store.numbers(KEY), store.numbers(OTHER)) == ([], [1, 2, 3])


def test_a_store_that_was_not_prepared_takes_nothing_and_is_left_untouched(folder: Path) -> None:
    store = DeltaStore(LocalFolder(folder))
    with pytest.raises(ConfigError, match="found no table; prepare the store") as refused:
        store.create(KEY, 1, b"{}")

    assert refused.value.path == str(folder)
    assert not folder.exists()


def test_a_cut_preparation_is_repeated(folder: Path) -> None:
    (folder / "_delta_log").mkdir(parents=True)

    assert DeltaStore(LocalFolder(folder)).numbers(KEY) == []
    assert prepared(folder).create(KEY, 1, b"{}")


def test_a_folder_that_holds_something_else_is_refused(folder: Path) -> None:
    (folder / "orders" / "_delta_log").mkdir(parents=True)
    for use in (
        lambda: DeltaStore(LocalFolder(folder)).prepare(),
        lambda: DeltaStore(LocalFolder(folder)).numbers(KEY),
    ):
        with pytest.raises(
            ConfigError, match="found 'orders', expected a Delta table of states, or nothing"
        ) as refused:
            use()

        assert refused.value.path == str(folder)
    assert not (folder / "_delta_log").exists()


def test_a_table_of_somebody_else_is_refused(folder: Path) -> None:
    DeltaTable.create(str(folder), pa.schema([("id", pa.int64()), ("name", pa.string())]))
    for use in (
        lambda: DeltaStore(LocalFolder(folder)).prepare(),
        lambda: DeltaStore(LocalFolder(folder)).numbers(KEY),
    ):
        with pytest.raises(ConfigError, match="found a Delta table with the columns id, name, expected namespace"):
            use()

    assert DeltaTable(str(folder)).version() == 0


@pytest.mark.parametrize(("columns", "divided_by"), [(6, 1), (5, 4)])
def test_a_table_that_only_looks_like_one_of_states_is_refused(
    folder: Path, store: DeltaStore, columns: int, divided_by: int
) -> None:
    fields = DeltaTable(str(folder)).schema().fields
    assert store.numbers(KEY) == []
    store.close()
    shutil.rmtree(folder)
    names = [field.name for field in fields[:divided_by]]
    DeltaTable.create(str(folder), Schema(fields[:columns]), partition_by=names)

    with pytest.raises(ConfigError, match="give the states a table of their own"):
        store.numbers(KEY)


def test_a_place_that_cannot_be_a_folder_is_a_mistake_of_the_set_up(folder: Path) -> None:
    folder.write_text("notes")
    with pytest.raises(ConfigError, match="the table of states failed") as refused:
        DeltaStore(LocalFolder(folder / "below")).prepare()

    assert refused.value.path == str(folder / "below")


def test_a_damaged_log_is_an_error_and_no_empty_store(folder: Path, store: DeltaStore) -> None:
    store.create(KEY, 1, b"{}")
    log = folder / "_delta_log" / f"{1:020}.json"
    log.write_text("{")

    with pytest.raises(TransientError, match="the table of states failed"):
        DeltaStore(LocalFolder(folder)).numbers(KEY)


def test_a_record_whose_file_is_missing_is_not_taken_for_none(folder: Path, store: DeltaStore) -> None:
    store.create(KEY, 1, b"{}")
    (file,) = files(folder)
    (folder / file).unlink()

    with pytest.raises(BadState, match="the file that the table names for record 000000000001 of default/shop") as bad:
        store.read(KEY, 1)
    assert bad.value.path == f"{folder}/{file}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PAR1 and no more", "expected the Parquet file that was written"),
        (parquet({"record": ["{}", "{}"]}), "expected one row with a record"),
        (parquet({"record": [None]}), "expected one row with a record"),
        (parquet({"id": [1]}), "expected the Parquet file that was written"),
    ],
)
def test_a_damaged_file_is_told(folder: Path, store: DeltaStore, content: bytes, said: str) -> None:
    store.create(KEY, 1, b"{}")
    (file,) = files(folder)
    (folder / file).write_bytes(content)

    with pytest.raises(BadState, match=said):
        store.read(KEY, 1)


def test_records_are_text_that_any_reader_of_delta_finds(folder: Path, store: DeltaStore) -> None:
    with open_session(StateLog(store, KEY)) as session:
        session.propose("stream:users", COUNTER.of(3))
        session.propose("entities:ids", COUNTER.of({f"id-{i}": 1 for i in range(3000)}))
        session.commit("final")
    rows = DeltaTable(str(folder)).to_pyarrow_table().sort_by("kind").to_pylist()

    assert [(row["namespace"], row["pipeline"], row["kind"], row["record"] is None) for row in rows] == [
        ("default", "shop", "blob", True),
        ("default", "shop", "record", False),
    ]
    assert rows[1]["name"] == "000000000001"
    assert '"stream:users"' in rows[1]["record"]
    assert rows[0]["blob"] == store.blob(KEY, rows[0]["name"])


def test_a_relative_path_and_one_of_the_home_are_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    assert open_delta({"path": "states"}).address_of(KEY, 42) == f"{tmp_path}/states default/shop seq=42"
    assert open_delta({"path": "~/states"}).address_of(KEY, 42) == f"{tmp_path}/home/states default/shop seq=42"
    assert open_delta({"path": f"file://{tmp_path}/x"}).address_of(KEY, 42) == f"{tmp_path}/x default/shop seq=42"


@pytest.mark.parametrize(
    ("config", "where", "said"),
    [
        ({"paht": "x"}, "state_provider.config", "unknown key 'paht'; did you mean 'path'?"),
        ({}, "state_provider.config.path", "found None, expected a folder or an address"),
        ({"path": ""}, "state_provider.config.path", "found '', expected a folder or an address"),
        ({"path": "x", "storage": "y"}, "state_provider.config.storage", "found str, expected keys and values"),
        ({"path": "ftp://host/x"}, "ftp", "expected a folder, or an address that begins with file://, s3://"),
        ({"path": "/a%20b"}, "/a%20b", "delta-rs cannot open a path with %"),
        (
            {"path": "s3://b/x", "storage": {"AWS_REGIO": "x"}},
            "state_provider.config.storage.AWS_REGIO",
            "unknown option; did you mean 'AWS_REGION'?",
        ),
        (
            {"path": "s3://b/x", "storage": {"AWS_ACCESS_KEY_ID": "x"}},
            "state_provider.config.storage",
            "AWS_ACCESS_KEY_ID is given, and AWS_SECRET_ACCESS_KEY is missing",
        ),
        (
            {"path": "s3://key:secret@b/x"},
            "s3://",
            "keys are not read from an address; put them into state_provider.config.storage",
        ),
    ],
)
def test_settings_that_are_wrong_are_told_with_their_place(config: Mapping[str, Json], where: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_delta(config)

    assert (refused.value.path, said in refused.value.message) == (where, True), refused.value.message


def test_pyspark_is_not_loaded(folder: Path) -> None:
    settings = {"type": "delta", "config": {"path": str(folder)}}
    program = f"import sys; from cdk.state.stores import open_store; open_store({settings!r}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert {"deltalake", "pyspark"} & set(loaded.stdout.split()) == {"deltalake"}


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def lake(server: ObjectStore, tmp_path: Path) -> Iterator[DeltaStore]:
    """A store in the bucket, which is well when a test begins."""
    server.misbehave()
    store = DeltaStore(folder_at(f"s3://lake/{tmp_path.name}", server.storage))
    store.prepare()
    yield store
    server.misbehave()


@pytest.mark.parametrize("status", [500, 503, 412])
def test_a_record_whose_answer_was_lost_on_the_wire_is_created_once(
    server: ObjectStore, lake: DeltaStore, status: int
) -> None:
    server.misbehave(Trouble(COMMIT, status=status, times=1, done=True))

    assert lake.create(KEY, 1, b'"mine"')
    assert not lake.create(KEY, 1, b'"again"')
    assert (lake.numbers(KEY), lake.read(KEY, 1)) == ([1], b'"mine"')


def test_a_record_that_the_server_refused_is_not_there_and_may_come_later(
    server: ObjectStore, lake: DeltaStore
) -> None:
    server.misbehave(Trouble(COMMIT))
    with pytest.raises(TransientError, match="SlowDown: Please reduce your request rate"):
        lake.create(KEY, 1, b'"lost"')
    server.misbehave()

    assert lake.numbers(KEY) == []
    assert lake.create(KEY, 1, b'"mine"')
    assert lake.read(KEY, 1) == b'"mine"'


def test_a_table_whose_making_lost_its_answer_is_made(server: ObjectStore, lake: DeltaStore, tmp_path: Path) -> None:
    server.misbehave(Trouble(r"PUT /lake/.*/_delta_log/0+\.json", status=412, times=1, done=True))
    store = DeltaStore(folder_at(f"s3://lake/{tmp_path.name}/other", server.storage))
    server.asked()
    store.prepare()

    assert [request for request in server.asked() if re.search(COMMIT, request)] == []
    assert store.create(KEY, 1, b"{}")
    assert lake.numbers(KEY) == []


def test_a_table_that_the_server_refuses_to_make_is_an_error(
    server: ObjectStore, lake: DeltaStore, tmp_path: Path
) -> None:
    server.misbehave(Trouble(r"PUT /lake/.*/_delta_log/0+\.json"))
    store = DeltaStore(folder_at(f"s3://lake/{tmp_path.name}/other", server.storage))
    with pytest.raises(TransientError, match="SlowDown: Please reduce your request rate"):
        store.prepare()

    assert store.numbers(KEY) == lake.numbers(KEY) == []


def test_a_key_that_the_server_repeats_is_in_no_error(server: ObjectStore, lake: DeltaStore) -> None:
    body = f"<Error><Code>InvalidAccessKeyId</Code><Message>No.</Message><Key>{SECRET}</Key></Error>"
    server.misbehave(Trouble("_delta_log", status=403, body=body))
    with pytest.raises(ConfigError, match="the store does not accept the keys") as refused:
        lake.numbers(KEY)

    assert SECRET not in f"{refused.value} {refused.value.detail}"


def test_opening_a_table_of_many_commits_does_not_read_its_whole_log(
    server: ObjectStore, lake: DeltaStore, tmp_path: Path
) -> None:
    for seq in range(1, 26):
        lake.create(KEY, seq, b"{}")
    server.asked()
    again = DeltaStore(folder_at(f"s3://lake/{tmp_path.name}", server.storage))
    assert len(again.numbers(KEY)) == 25
    opening = server.asked()
    again.numbers(KEY)

    assert len({request for request in opening if request.startswith("GET") and request.endswith(".json")}) < 10
    assert len(server.asked()) < 4


@needs_s3rver
def test_a_server_that_ignores_the_condition_is_refused(tmp_path: Path) -> None:
    with s3rver(tmp_path) as options:
        storage = {
            "AWS_ENDPOINT_URL": options["endpoint"],
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": options["region"],
            "AWS_ACCESS_KEY_ID": options["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": options["secret_access_key"],
        }
        settings = {"type": "delta", "config": {"path": "s3://states/folder", "storage": storage}}
        with pytest.raises(ConfigError, match="does not refuse to create what is there") as refused:
            open_store(settings)

        assert refused.value.path == "s3://states/folder"
        assert open_store(settings, writes=False).numbers(KEY) == []


def test_a_table_in_an_object_store_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cdk.state.stores.cloud", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)

    with pytest.raises(ConfigError, match=r"pip install 'spark-cdk\[object\]'"):
        open_delta({"path": "s3://bucket/folder"}).prepare()
