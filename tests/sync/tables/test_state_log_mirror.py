"""The log that follows the tables; tasks run in this process."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdk import ConfigError, CountCursor, Json, JsonSchema, Page, Partition, Slice, Stream, StreamState
from cdk.base.errors import BadState, StateError, StateTooLarge
from cdk.base.task_map import run_inline
from cdk.base.times.clock import system_clock
from cdk.base.values import canonical
from cdk.engine.read import read
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import TableState
from cdk.spark.sync_runner import SyncRunner
from cdk.state import StateLog, StateRecord
from cdk.state.layers.layered_map import LayeredMap
from cdk.state.stored_positions import PartitionEntries
from cdk.sync.loop import runner as sync_module
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.settings.pipeline_file import (
    Pipeline,
    ProviderOptions,
    SourceOptions,
    StateOptions,
    StreamOptions,
    TargetOptions,
)
from cdk.sync.tables.state_log_mirror import open_log, state_check
from cdk.sync.tasks.workers import Workers
from tests.samples import Orders, Plain, Users
from tests.spark.dying import dying_at
from tests.spark.given_source import Given


@dataclass(frozen=True)
class Lake:
    """A pipeline whose log lies beside its tables."""

    folder: Path
    options: StateOptions

    def pipeline(self, **config: Json) -> Pipeline:
        return Pipeline(
            name="shop",
            source=SourceOptions(connector="given", config=config),
            target=TargetOptions(path=str(self.folder / "lake")),
            state=self.options,
        )

    def sync(self, *streams: Stream, **config: Json) -> SyncResult:
        return SyncRunner(self.pipeline(**config), Given(streams), workers=Workers(run_inline, 1)).run()

    @property
    def log(self) -> StateLog:
        log = open_log(self.pipeline(), (), system_clock)
        assert log is not None
        return log

    @property
    def records(self) -> list[StateRecord]:
        return list(self.log.history())[::-1]

    def table(self, name: str) -> DeltaTable:
        return DeltaTable(str(self.folder / "lake" / name))

    def saved(self, name: str) -> TableState:
        stream = self.folder / "lake" / name
        saved = StreamTable(stream, "shop", name, self.table(name).schema().to_arrow()).saved
        assert saved is not None
        return saved


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    provider = ProviderOptions(type="local", config={"path": str(tmp_path / "log")})
    return Lake(tmp_path, StateOptions(state_provider=provider))


def test_a_record_names_every_stream_and_the_version_of_its_table(lake: Lake) -> None:
    assert lake.sync(Orders(), Users()).ok

    (record,) = lake.records
    assert (record.seq, record.status, sorted(record.slots)) == (1, "final", ["stream:orders", "stream:users"])
    orders = lake.log.value(record, "stream:orders").value
    assert (orders["state"], orders["complete"]) == (lake.saved("orders").state, True)
    effects = {effect["stream"]: effect for effect in record.effects}
    assert effects["orders"]["table_version"] == lake.table("orders").version()
    assert effects["orders"]["txn"] == {
        "app": "spark-cdk/shop/orders",
        "version": lake.table("orders").transaction_version("spark-cdk/shop/orders"),
    }
    assert effects["orders"]["rows"] == 21
    assert record.run["id"] == lake.saved("orders").sync


def test_a_sync_that_moves_nothing_adds_no_record_and_a_compacted_table_neither(lake: Lake) -> None:
    lake.sync(Orders())
    lake.table("orders").optimize.compact()

    lake.sync(Orders())

    assert [record.seq for record in lake.records] == [1]


def test_streams_that_are_not_synced_stay_in_the_record(lake: Lake) -> None:
    lake.sync(Orders(), Users())
    lake.sync(Users())

    record = lake.records[-1]
    assert (record.seq, sorted(record.slots)) == (2, ["stream:orders", "stream:users"])
    assert sorted(effect["stream"] for effect in record.effects) == ["orders", "users"]


def test_after_a_crash_the_next_sync_first_tells_what_is_missing(lake: Lake) -> None:
    with dying_at("done", sync_module):
        lake.sync(Orders())
    assert lake.log.head() is None

    lake.sync(Orders())

    first, *_, last = lake.records
    assert (first.status, last.status) == ("partial", "final")
    assert lake.log.value(first, "stream:orders").value["state"] == lake.saved("orders").state
    assert [effect["rows"] for effect in last.effects] == [21]


class Broken(Users):
    name = "broken"

    def read_page(self, slice: Slice, token: Mapping[str, Json] | None) -> Page:  # noqa: ARG002
        raise ConfigError("the source said no")


def test_a_sync_with_a_stream_that_failed_leaves_a_partial_record(lake: Lake) -> None:
    assert not lake.sync(Orders(), Broken()).ok

    assert [(record.status, sorted(record.slots)) for record in lake.records] == [
        ("partial", ["stream:broken", "stream:orders"])
    ]


def test_the_log_takes_no_secret_and_nothing_too_large(lake: Lake) -> None:
    (secret,) = lake.sync(Orders(), key="2024-01-05").streams
    small = replace(lake, options=lake.options.model_copy(update={"max_checkpoint_state_size": 10}))
    (large,) = small.sync(Orders()).streams

    assert secret.failure is not None
    assert "found a secret of the config" in secret.failure.message
    assert large.failure is not None
    assert "expected at most 10" in large.failure.message
    assert (lake.log.head(), lake.table("orders").to_pyarrow_table().num_rows) == (None, 0)


def test_a_provider_that_is_turned_off_or_wrong(lake: Lake, tmp_path: Path) -> None:
    replace(lake, options=lake.options.model_copy(update={"enabled": False})).sync(Orders())
    assert not (tmp_path / "log").exists()

    wrong = Lake(tmp_path / "new", StateOptions(state_provider=ProviderOptions(type="lokal")))
    with pytest.raises(ConfigError, match="did you mean 'local'"):
        wrong.sync(Orders())
    assert not (tmp_path / "new").exists()


def test_a_sync_that_ignores_the_old_state_reads_from_the_start_each_time(tmp_path: Path) -> None:
    lake = Lake(tmp_path, StateOptions(ignore_old_state=True))
    records = sum(len(item) for item in read(Orders(), StreamState()) if not isinstance(item, StreamState))

    first, second = lake.sync(Orders(), Plain()), lake.sync(Orders(), Plain())

    assert [report.written for report in first.streams] == [records, 7]
    assert [report.written for report in second.streams] == [records, 7]
    assert lake.saved("orders").generation == 2


def test_a_cut_sync_that_ignores_the_old_state_goes_on(tmp_path: Path) -> None:
    lake = Lake(tmp_path, StateOptions(ignore_old_state=True))

    with dying_at("done", sync_module):
        lake.sync(Orders())

    (report,) = lake.sync(Orders()).streams

    assert (report.written, lake.saved("orders").generation) == (0, 1)


def test_a_sync_that_ignores_the_new_state_is_refused_where_it_would_write(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a sync can only be previewed"):
        Lake(tmp_path, StateOptions(ignore_new_state=True)).sync(Orders())
    assert not (tmp_path / "lake").exists()


def test_the_settings_of_a_file_are_relative_to_it(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "name: shop\nsource: {connector: shop}\ntarget: {path: lake}\n"
        "state: {state_provider: {type: local, config: {path: log}}, max_checkpoint_state_size: 99}\n"
    )
    options = Pipeline.load(path).state

    assert options.state_provider is not None
    assert options.state_provider.config == {"path": str(tmp_path / "log")}
    assert options.max_checkpoint_state_size == 99


def test_a_wrong_provider_shows_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "name: a\nsource: {connector: b}\ntarget: {path: c}\nstate: {state_provider: postgresql://u:pw@h/d}\n"
    )

    with pytest.raises(ConfigError) as caught:
        Pipeline.load(path)
    assert "pw" not in str(caught.value)
    assert "state.state_provider: found a string, expected an object" in str(caught.value)


def test_a_preview_writes_nothing_and_tells_where_a_sync_goes_on(lake: Lake, tmp_path: Path) -> None:
    runner = SyncRunner(lake.pipeline(), Given([Orders(), Users(), Broken()]))
    orders, users, broken = runner.preview(4)
    assert not (tmp_path / "lake").exists()
    assert not (tmp_path / "log").exists()

    assert ([record["id"] for record in orders.records], orders.state) == ([0, 1, 2, 3], None)
    assert orders.slices[0] == "[2024-01-01T00:00:00Z, 2024-01-02T00:00:00Z]"
    assert len(users.records) == 4
    assert broken.failure is not None
    assert broken.failure.message == "the source said no"

    lake.sync(Orders())
    before = sorted(tmp_path.rglob("*"))
    (again,) = SyncRunner(lake.pipeline(), Given([Orders()])).preview(4)
    (planned,) = SyncRunner(lake.pipeline(), Given([Broken()])).preview(0)

    # The records at the cursor's value are known, and there is nothing newer.
    assert (again.records, again.state) == ([], lake.saved("orders").state)
    assert (planned.slices, planned.failure) == (["whole stream"], None)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_preview_shows_the_first_slices_and_says_that_there_are_more(lake: Lake) -> None:
    class Hourly(Orders):
        name = "hourly"

        def partitions(self) -> Sequence[Partition]:
            return [Partition.of(shop=n) for n in range(3)]

    (preview,) = SyncRunner(lake.pipeline(), Given([Hourly()])).preview(0)

    assert (len(preview.slices), preview.more) == (5, True)


def test_stream_options_still_count_in_a_preview(lake: Lake) -> None:
    class Declared(Orders):
        name = "orders"
        schema: JsonSchema | None = {"properties": {"id": {"type": "integer"}}}  # noqa: RUF012 - as an author writes it

    pipeline = lake.pipeline().model_copy(update={"streams": {"orders": StreamOptions(write_mode="append_dedup")}})

    (preview,) = SyncRunner(pipeline, Given([Declared(), Users()])).preview(1)

    assert preview.failure is None
    assert (preview.plan.name, preview.plan.write_mode, len(preview.records)) == ("orders", "append_dedup", 1)


@pytest.mark.parametrize("provided", [True, False])
def test_a_secret_in_a_state_is_refused_before_anything_is_written(tmp_path: Path, lake: Lake, provided: bool) -> None:  # noqa: FBT001 - a parameter
    lake = lake if provided else Lake(tmp_path, StateOptions())
    (report,) = lake.sync(Orders(), key="2024-01-05").streams

    assert report.failure is not None
    assert "found a secret of the config" in report.failure.message
    assert (report.written, report.total) == (0, 0)
    root = lake.folder / "lake" / "orders"
    assert lake.table("orders").to_pyarrow_table().num_rows == 0
    kept = [*(root / "_cdk_state").rglob("*.json"), *(root / "_delta_log").iterdir()]
    assert not any(b"2024-01-05" in path.read_bytes() for path in kept)


class Shops(Stream):
    """A partition for each of so many shops."""

    name = "shops"
    supports_checkpointing = True

    def partitions(self) -> Iterator[Partition]:
        return (Partition.of(shop=n) for n in range(1_100))

    def read_records(self, slice: Slice) -> Iterator[Json]:
        yield {"shop": slice.partition["shop"]}


def test_the_log_has_the_positions_of_many_partitions_by_their_key(lake: Lake) -> None:
    assert lake.sync(Shops()).ok
    value = lake.log.value(lake.records[-1], "stream:shops").value

    assert len(value["state"]["states"]) == 1_100
    assert value["state"]["states"]['{"shop":7}'] == {"cursor": {"__ab_full_refresh_sync_complete": True}}


class Growing(Shops):
    """Shops of which one has a new record in each sync."""

    name = "shops"
    cursor = CountCursor("seq")

    def partitions(self) -> Iterator[Partition]:
        return (Partition.of(shop=n, town="Little Whinging") for n in range(1_100))

    def read_records(self, slice: Slice) -> Iterator[Json]:
        yield {"shop": slice.partition["shop"], "seq": 1 if slice.partition["shop"] else self.config["seq"]}


def test_a_record_copies_the_layers_that_the_table_wrote_since_the_one_before(lake: Lake) -> None:
    assert all(lake.sync(Growing({"seq": seq})).ok for seq in (1, 2))
    first, second = (record.slots["stream:shops"] for record in lake.records)

    assert first.blobs == second.blobs[:1]
    assert second.maps[0]["layers"][1][1] == 1
    values = [lake.log.value(record, "stream:shops").value["state"] for record in lake.records]
    moved = {key for key, entry in values[1]["states"].items() if entry != values[0]["states"][key]}
    assert moved == {'{"shop":0,"town":"Little Whinging"}'}
    assert values[1]["states"] == {canonical(e.pop("partition")): e for e in lake.saved("shops").state["states"]}


def test_a_layer_of_the_log_that_was_changed_is_an_error_that_names_it(lake: Lake) -> None:
    lake.sync(Growing({"seq": 1}))
    record = lake.records[-1]
    (name,) = record.slots["stream:shops"].blobs
    (path,) = (path for path in (lake.folder / "log").rglob("*") if path.name == name)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)

    with pytest.raises(BadState, match=f"blob {name}.*a block of the digest"):
        lake.log.value(record, "stream:shops")


def test_no_layer_with_a_secret_comes_into_the_log(lake: Lake) -> None:
    Lake(lake.folder, StateOptions()).sync(Growing({"seq": 1}))

    with pytest.raises(StateError, match="found a secret of the config"):
        lake.sync(Growing({"seq": 1}), key="Little Whinging")


def test_of_many_partitions_those_that_moved_are_looked_at(lake: Lake) -> None:
    texts = LayeredMap.of({f'{{"shop":{n}}}': '{"cursor":{"page":1}}' for n in range(1_000)})
    moved = texts.updated({'{"shop":7}': '{"cursor":{"url":"https://x?key=hunter22"}}'})
    states = [TableState("incremental", "append", state={"states": PartitionEntries(map)}) for map in (texts, moved)]
    check = state_check(lake.pipeline(), ["hunter22"])
    check("shops", states[0])

    with pytest.raises(StateError, match="found a secret of the config"):
        check("shops", states[1])
    small = replace(lake, options=lake.options.model_copy(update={"max_checkpoint_state_size": 30_000}))
    with pytest.raises(StateTooLarge, match="found a state of"):
        state_check(small.pipeline(), [])("shops", states[0])
