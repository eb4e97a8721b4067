"""The state log that mirrors the tables: with a `state_provider`, a record has the state of every stream of a sync.

The tables are the truth: no sync ever resumes from the log. A record is appended after the commits that it describes.
If the process dies in between, the next sync finds that the tables' markers differ from those in the newest record, and
appends the missing record before it reads anything.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Literal

from cdk.base.errors import ConfigError
from cdk.base.times.clock import Clock
from cdk.base.values import JsonValue, Location, Stored, from_json, to_json
from cdk.lake.admin.edits import reset
from cdk.lake.admin.locate import OpenTables, StreamLocation
from cdk.lake.delta.stream_table import StreamTable
from cdk.lake.delta.table_state import STATE_IGNORED, TableState
from cdk.state.layers.layer_file import StoredLayer
from cdk.state.layers.layered_map import LayeredMap
from cdk.state.log.session import open_session
from cdk.state.log.slot_value import Kind, PackedMap, StateValue
from cdk.state.log.state_log import StateLog
from cdk.state.log.value_check import ValueCheck
from cdk.state.stored_positions import insert_entries, split_entries
from cdk.state.stores.opening import open_store
from cdk.state.stores.protocol import StateKey
from cdk.sync.settings.pipeline_file import Pipeline
from cdk.sync.settings.stream_plan import StreamPlan

STREAM = Kind("cdk/table-state")
"""Kind of the `stream:` slots: the state of a table, without file names."""


def open_log(pipeline: Pipeline, secrets: Iterable[str], clock: Clock) -> StateLog | None:
    """Open the log that the pipeline file configures; None if it configures none.

    Raises ConfigError: when the store cannot be used or `ignore_new_state` is set. TransientError: when the store
    cannot be reached.
    """
    options = pipeline.state
    if options.ignore_new_state:
        where = Location(keys=("state", "ignore_new_state"))
        raise ConfigError("nothing may be written, so a sync can only be previewed", path=where)
    return None if options.state_provider is None or not options.enabled else state_log(pipeline, secrets, clock)


def state_log(pipeline: Pipeline, secrets: Iterable[str], clock: Clock, *, writes: bool = True) -> StateLog:
    """Open the log of a pipeline with a `state_provider`. writes: it may be written. Raises as `open_log` does."""
    options = pipeline.state
    assert options.state_provider is not None
    store = open_store(options.state_provider.model_dump(), writes=writes)
    size = options.max_checkpoint_state_size
    return StateLog(store, StateKey(pipeline.name), clock=clock, secrets=secrets, max_checkpoint_state_size=size)


def state_check(pipeline: Pipeline, secrets: Iterable[str]) -> Callable[[str, TableState], None]:
    """Return a check that refuses an invalid state of a stream before anything of its commit is written.

    The check raises StateError: when the state contains a secret of the config. StateTooLarge: when the log would
    refuse it. Of many partitions, it only checks those that have moved since the last checked state.
    """
    options = pipeline.state
    values = ValueCheck(secrets, options.max_checkpoint_state_size)
    logged = options.state_provider is not None and options.enabled
    checked: dict[tuple[str, ...], LayeredMap] = {}

    def check(stream: str, saved: TableState) -> None:
        state, parts = split_entries(saved.state)
        for of, texts in parts.items():
            moved = texts.since(checked.get((stream, *of)) or _loaded(texts))
            values.secrets.refuse(to_json(moved), f"state of {stream}")
            checked[stream, *of] = texts
        if logged:
            size = sum(texts.size for texts in parts.values())
            values.check(f"stream:{stream}", STREAM.of(_value(saved, state)), more=size)
        else:
            values.secrets.refuse(to_json([state, saved.source]), f"state of {stream}")

    return check


@contextmanager
def mirroring(
    log: StateLog | None,
    pipeline: Pipeline,
    plans: Sequence[StreamPlan],
    tables: OpenTables,
    *,
    sync: str,
    ended: Callable[[], bool],
) -> Iterator[None]:
    """Apply the pipeline's `state` options around a sync: reset states, and mirror them to the log before and after.

    ended: returns whether every stream was read to its end.
    Raises what a state store raises. StateError: when a state contains a secret or is too large for the log; the tables
    have it nevertheless. StateConflict: when another run wrote to the log.
    """
    locations = [plan.location for plan in plans]
    if pipeline.state.ignore_old_state:
        for location in locations:
            _reset_once(location, tables, sync)
    if log is None:
        yield
        return
    mirror_states(log, locations, tables, "partial", sync)
    yield
    mirror_states(log, locations, tables, "final" if ended() else "partial", sync)


def mirror_states(
    log: StateLog,
    locations: Sequence[StreamLocation],
    tables: OpenTables,
    status: Literal["partial", "final"],
    sync: str,
) -> None:
    """Append a record with the states of the tables, unless the newest one has them. Other streams stay in it."""
    with open_session(log, run={"id": sync}, blind=True) as session:
        logged = {} if session.head is None else {_stream(effect): effect for effect in session.head.effects}
        effects: dict[str, Mapping[str, JsonValue]] = {}
        for location in locations:
            table = tables.existing(location)
            if table is None or table.saved is None:
                continue  # if its state is lost, the stream itself fails with that error
            session.propose(f"stream:{location.name}", _logged(table, table.saved))
            effects[location.name] = {
                "sink": f"delta:{location.root}",
                "stream": location.name,
                "table_version": table.version,
                "txn": {"app": table.app, "version": table.state_version},
                "rows": table.saved.records,
            }
        # Markers are compared, not table versions, because compaction changes the version but not the state.
        moved = [name for name, effect in effects.items() if effect["txn"] != logged.get(name, {}).get("txn")]
        unchanged = [effect for name, effect in logged.items() if name not in effects]
        ends = status == "final" and session.head is not None and session.head.status == "partial"
        session.commit(status, [*unchanged, *effects.values()] if moved or ends else [])


def _reset_once(location: StreamLocation, tables: OpenTables, sync: str) -> None:
    """Reset a stream's state, unless this sync did so before it was interrupted."""
    table = tables.existing(location)
    if table is None or table.state_version is None or (table.saved is not None and table.saved.sync == sync):
        return
    new = reset(table.saved or TableState("", "")).saved
    tables.complete_history(location, table)
    anew = TableState(new.sync_mode, new.write_mode, sync, new.generation, records=new.records)
    table.move(anew, note=STATE_IGNORED)


def _loaded(texts: LayeredMap) -> LayeredMap:
    """Return the layers that were stored before, which were checked when they were written."""
    return LayeredMap(list(takewhile(lambda layer: isinstance(layer, StoredLayer), texts.layers)))


def _logged(table: StreamTable, saved: TableState) -> StateValue:
    """Return a table's state for the log, which copies the layers of many partitions unchanged from the table."""
    state, parts = split_entries(saved.state)
    maps = []
    for of, texts in parts.items():
        if layers := table.blobs.packed(texts):
            at = ("state", *(name for parent in of for name in ("parent_state", parent)), "states")
            maps.append(PackedMap(at, texts.size, layers))
        else:
            insert_entries(state, of, {key: from_json(text) for key, text in texts.items()})
    return STREAM.of(_value(saved, state), maps)


def _value(saved: TableState, state: Stored) -> Mapping[str, JsonValue]:
    return {
        "state": state,
        "complete": saved.complete,
        "generation": saved.generation,
        "sync": saved.sync,
        "sync_mode": saved.sync_mode,
        "write_mode": saved.write_mode,
        "source": saved.source,
    }


def _stream(effect: JsonValue) -> str:
    return str(effect.get("stream")) if isinstance(effect, Mapping) else ""
