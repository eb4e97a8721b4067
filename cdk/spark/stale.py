"""Stale rows at table scale: what a complete read no longer has, by Spark, whatever the number of ids.

The set of ids lies in Parquet files, in a folder of its own for each run: `<folder>/<record>-<random>/`, on a disk or
in a store, and beside it `<record>-<random>.set`, which is there before it and after it. The slot `entities:<name>` of
the state log says which one counts, so files and state move by one small record. A run joins the
set with what it saw in one pass, which spills to disk: an anti-join in both directions. No id comes to the driver but
those that a sink is asked about, and of these 100,000 at a time.

The rules are those of `cdk.state.handlers.entity_set`, as expressions.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from operator import and_
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cdk.base.errors import BadState, ConfigError, StateError
from cdk.base.logs import logger
from cdk.base.values import Json
from cdk.lake.storage.folder import Disk, Place
from cdk.spark.row_files import RowFiles
from cdk.state.handlers.entity_set import LEAVING, THERE, UNSURE
from cdk.state.handlers.removal_guards import Counted, RemovalRefused, empty, is_empty, is_too_much, too_much
from cdk.state.handlers.run import StatefulRun
from cdk.state.log import Kind

ENTITY_TABLE = Kind("cdk/entity-table")
"""The kind of `entities:` slots whose ids lie in files."""

_CHUNK = 100_000
_SET = ".set"
_COMPARED, _REMOVED, _REVIVED = "compared", "removed", "revived"
"""The folders of a set: all keys, and those that the sink has confirmed."""
_SEEN, _STANDING, _SHOWN, _BEFORE, _AFTER = "_seen", "_standing", "_shown", "_before", "_after"
_KEYS = ("string", "tinyint", "smallint", "int", "bigint", "boolean", "date", "decimal")


class RowSink(Protocol):
    """Where rows were written. Both methods may be called again with the same keys, and must not mind."""

    def remove(self, keys: pa.Table, *, hard: bool) -> pa.Table:
        """Remove the rows of these keys, at most 100,000; returns the keys whose removal is durable.

        hard: delete; otherwise flag as removed. Keys that are not there count as removed.
        """

    def revive(self, keys: pa.Table) -> pa.Table:
        """Take the flag off rows that have it; returns the keys that are shown for sure."""


@dataclass(frozen=True)
class StaleReport:
    """What was done. Figures are those from before the guards.

    previous: keys that were known and not leaving. current: keys seen. gone: keys to be removed. removed, revived: how
    many the sink confirmed. pending: keys whose removal it was asked for and did not confirm. kept: why nothing was
    removed; empty when it was.
    """

    previous: int
    current: int
    gone: int
    removed: int = 0
    revived: int = 0
    pending: int = 0
    kept: str = ""


@dataclass(frozen=True)
class _Snapshot:
    """A set of keys in files, as a slot names it.

    name: its folder. held: nothing was removed in that run. removed, revived: whether there are keys that the sink
    confirmed.
    """

    name: str
    held: bool
    removed: bool = False
    revived: bool = False


_FIELDS = {"name": str, "held": bool, "removed": bool, "revived": bool}


class StaleRows:
    """The keys of one slot in one run. Belongs to the driver's thread.

    folder: one that the driver and all executors see, this slot's own; `cdk.lake.storage.object_store.place_at` has those in stores.
    keys: the columns that tell rows apart: texts, whole numbers, booleans, dates, decimals. A null is a key like any
    other.
    Raises BadState: what the last run left cannot be read. StateError: its files are gone. What the folder's place
    raises; so do the methods.
    """

    def __init__(
        self, session: SparkSession, folder: Place | Path, run: StatefulRun, name: str, keys: Sequence[str]
    ) -> None:
        self.slot = f"entities:{name}"
        self._session, self._run, self._keys = session, run, tuple(keys)
        self._folder: Place = Disk(folder.absolute()) if isinstance(folder, Path) else folder
        path = f"state of {run.log.key} {self.slot}"
        self._shown = _read(run.shown(self.slot, ENTITY_TABLE), path)
        self._standing = _read(run.standing(self.slot, ENTITY_TABLE), path)
        for snapshot in (self._shown, self._standing):
            if snapshot is not None and not (files := self._files(snapshot.name, _COMPARED)).there:
                message = (
                    "found no such folder, expected the set that the state names; bring it back, or reset the slot"
                )
                raise StateError(message, path=str(files.place))

    def settle(self, seen: DataFrame, sink: RowSink, *, complete: bool) -> StaleReport:
        """Compare, have the sink remove and revive, and propose what is known then.

        seen: the rows of this run, with the columns `keys`; repeats count once. complete: it is certain that all was
        read; without that nothing is removed. To be called once, when the rows are durable: before it asks the sink it
        commits a partial record, with all that the session was proposed. The caller commits the final one, and may
        `sweep` after that. A run that stores nothing asks the sink for nothing.
        Raises RemovalRefused: the source is empty or would lose too much. ConfigError: a key of a type that is no
        key's, or of another type than earlier runs had.
        """
        head = self._run.session.head
        name = f"{head.seq + 1 if head else 1}-{uuid4().hex[:8]}"
        rows = self._compared(seen)
        if self._run.writes:
            self._folder.write(f"{name}{_SET}", b"")
            files = self._files(name, _COMPARED)
            files.write(rows)
            rows = files.read(self._session)
        report = self._settled(rows, name, sink, complete=complete)
        what = f"nothing was removed: {report.kept}" if report.kept else f"removed {report.removed} of {report.gone}"
        logger.info("%s: %s", self.slot, what)
        return report

    def sweep(self, keep: int = 3) -> None:
        """Remove the files of sets that no longer count, but the newest `keep`, to which a run may go back.

        A set's name begins with the number of the record it was written for: once that is taken, a set that no record
        names never will be named.
        """
        records = list(self._run.log.history())
        named = [self._run.log.value(record, self.slot).value for record in records if self.slot in record.slots]
        kept = list(dict.fromkeys(value["name"] for value in named))[:keep]
        for file in self._folder.names():
            name = file.removesuffix(_SET)
            number = name.partition("-")[0]
            written = file.endswith(_SET) and number.isdecimal()
            if written and name not in kept and records and int(number) <= records[0].seq:
                self._folder.join(name).delete_all()
                self._folder.delete(file)

    def _compared(self, seen: DataFrame) -> DataFrame:
        """A row for each key that is known or seen, with its number before and after, as if removing were allowed."""
        keys = self._keys
        parts = [self._checked(seen.select(*keys)).withColumn(_SEEN, f.lit(True))]
        same = self._shown == self._standing
        for snapshot, column in ((self._standing, _STANDING), (None if same else self._shown, _SHOWN)):
            if snapshot is not None:
                known = self._known(snapshot).withColumnRenamed(_AFTER, column)
                if [known.schema[key].dataType for key in keys] != [parts[0].schema[key].dataType for key in keys]:
                    found, expected = (_types(part.select(*keys)) for part in (parts[0], known))
                    raise ConfigError(f"found {found}, expected {expected}, as earlier runs had them", path=self.slot)
                parts.append(known)
        union = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
        union = union.withColumns(
            {name: f.lit(None).cast("int") for name in (_STANDING, _SHOWN) if name not in union.columns}
        )
        rows = union.groupBy(*keys).agg(*(f.max(name).alias(name) for name in (_SEEN, _STANDING, _SHOWN)))
        rows = rows.select(
            *keys,
            f.coalesce(_SEEN, f.lit(False)).alias(_SEEN),
            f.coalesce(_STANDING, _SHOWN).alias(_BEFORE),
            f.col(_STANDING if same else _SHOWN).isNotNull().alias(_SHOWN),
        )
        return rows.withColumn(_AFTER, after(first=self._standing is None, grace=self._run.options.grace_runs))

    def _settled(self, rows: DataFrame, name: str, sink: RowSink, *, complete: bool) -> StaleReport:
        leaves = ~f.col(_SEEN) & f.col(_SHOWN) & (f.col(_AFTER) == LEAVING)
        fresh = leaves & (f.col(_BEFORE) != LEAVING)
        back = f.col(_SEEN) & (f.col(_AFTER) == UNSURE)
        # Which keys would go, whatever their order; a plan that is accepted is this one.
        plan = f.hex(f.bit_xor(f.when(fresh, f.xxhash64(*self._keys)))).alias("plan")
        counts = {"previous": f.col(_SHOWN) & (f.col(_BEFORE) != LEAVING), "current": f.col(_SEEN)}
        counts |= {"gone": leaves, "fresh": fresh, "back": back}
        found = rows.agg(*(f.count_if(which).alias(name) for name, which in counts.items()), plan).collect()[0]
        kept, refused = self._judged(
            Counted(found.previous, found.current, found.fresh),
            f"{found.fresh}-{found.plan}".lower(),
            complete=complete,
        )
        snapshot = _Snapshot(name, held=bool(kept))
        self._propose(snapshot)
        if not self._run.writes:
            return StaleReport(found.previous, found.current, found.gone, kept=kept)
        if found.gone or found.back or refused:
            self._run.session.commit("partial")
        revived = self._asked(rows.where(back), name, _REVIVED, sink.revive) if found.back else 0
        removed, going = 0, 0 if kept else found.gone
        if going:
            remove = partial(sink.remove, hard=self._run.options.removal == "hard")
            removed = self._asked(rows.where(leaves), name, _REMOVED, remove)
        self._propose(_Snapshot(name, bool(kept), bool(removed), bool(revived)))
        if refused:
            self._run.session.commit("partial")
            raise RemovalRefused(kept, path=self.slot)
        return StaleReport(found.previous, found.current, found.gone, removed, revived, going - removed, kept)

    def _judged(self, counted: Counted, plan: str, *, complete: bool) -> tuple[str, bool]:
        """Why nothing is removed, empty where it is; and whether a person has to look at that."""
        options = self._run.options
        if reason := ("" if complete else "nothing says that all of it was read") or self._run.unwilling:
            return reason, False
        if is_empty(counted, options):
            return empty("", counted), True
        if is_too_much(counted, options) and plan != options.accept_removals:
            return too_much("", counted, options, plan), True
        return "", False

    def _known(self, snapshot: _Snapshot) -> DataFrame:
        """The keys of a set, and their numbers as `_after`."""
        rows = self._files(snapshot.name, _COMPARED).read(self._session)
        if snapshot.held:
            rows = rows.withColumn(_AFTER, f.when(f.col(_SEEN), f.col(_AFTER)).otherwise(f.col(_BEFORE)))
        rows = rows.select(*self._keys, _AFTER)
        if snapshot.removed:
            done = self._done(snapshot, _REMOVED, LEAVING)
            rows = rows.join(done, self._equal(rows, done, also=_BEFORE), "left_anti")
        if snapshot.revived:
            done = self._done(snapshot, _REVIVED, UNSURE)
            shown = rows.join(done, self._equal(rows, done, also=_BEFORE), "left_semi")
            rows = rows.join(done, self._equal(rows, done, also=_BEFORE), "left_anti")
            rows = rows.unionByName(shown.withColumn(_AFTER, f.lit(THERE)))
        return rows

    def _equal(self, rows: DataFrame, done: DataFrame, also: str) -> Column:
        """Equal keys, nulls included, and the number that was asked about."""
        return reduce(and_, (rows[key].eqNullSafe(done[key]) for key in self._keys)) & (rows[_AFTER] == done[also])

    def _asked(self, rows: DataFrame, name: str, what: str, ask: Callable[[pa.Table], pa.Table]) -> int:
        """Ask the sink about these rows, chunk by chunk; how many it confirmed. Their keys lie in files then."""
        keys = rows.select(*self._keys)
        asked = self._files(name, f"{what}_asked")
        asked.write(keys)
        done = (ask(chunk).select(list(self._keys)).cast(chunk.schema) for chunk in asked.tables(_CHUNK))
        return self._files(name, what).save(done, keys.schema)

    def _files(self, name: str, what: str) -> RowFiles:
        return RowFiles(self._folder.join(name, what))

    def _done(self, snapshot: _Snapshot, what: str, before: int) -> DataFrame:
        """The keys that the sink has confirmed, and the number that they had, as `_before`."""
        files = self._files(snapshot.name, what)
        rows = files.read(self._session).withColumn(_BEFORE, f.lit(before))
        # Without the hint, a join would collect them in the driver, however many they are.
        return rows if files.rows <= _CHUNK else rows.hint("merge")

    def _checked(self, keys: DataFrame) -> DataFrame:
        for name, kind in keys.dtypes:
            if kind.partition("(")[0] not in _KEYS:
                raise ConfigError(f"found the key {name!r} of type {kind}, expected {', '.join(_KEYS)}", path=self.slot)
        return keys

    def _propose(self, snapshot: _Snapshot) -> None:
        self._run.session.propose(self.slot, ENTITY_TABLE.of(asdict(snapshot)))


def after(*, first: bool, grace: int) -> Column:
    """The number of a key after a complete run, of `_before` and `_seen`: `met` and `missed` as an expression."""
    before = f.col(_BEFORE)
    met = f.when(before == THERE, THERE).otherwise(f.when(before.isNull() & f.lit(first), THERE).otherwise(UNSURE))
    runs = f.greatest(-before, f.lit(0)) + 1
    missed = f.when((before == LEAVING) | (runs > grace), LEAVING).otherwise(-runs)
    return f.when(f.col(_SEEN), met).otherwise(missed)


def _read(value: Json, path: str) -> _Snapshot | None:
    if value is None:
        return None
    if not isinstance(value, dict) or {key: type(item) for key, item in value.items()} != _FIELDS:
        raise BadState(path, value, "a text as `name`, and true or false as `held`, `removed` and `revived`")
    return _Snapshot(**value)


def _types(keys: DataFrame) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in keys.dtypes)
