"""Worlds in time: syncs of pipelines, whole and cut, with other writers between them and in the middle of them.

What each sync ends in is one of three: right, refused before the first request with the reason, or an error that loses
nothing.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import pyarrow as pa
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType, StructType
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cdk import Json, Partition, Record, Stream
from cdk.base.errors import StateError, TransientError
from cdk.base.task_map import Item, Result, run_inline
from cdk.lake.admin.diff import values
from cdk.lake.admin.edits import import_state, rewound
from cdk.lake.admin.locate import StreamLocation
from cdk.lake.admin.state_admin import Admin, EditResult
from cdk.lake.delta.state_blobs import number
from cdk.lake.parquet.table_files import unnamable_files
from cdk.lake.parquet.writer import DEFAULT_LIMITS, Limits
from cdk.lake.storage.folder import LocalFolder
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.stream_report import Status, StreamReport
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, StreamOptions, TargetOptions
from cdk.sync.tasks.workers import Workers
from tests.spark.featured_table import FEATURES, delete_by_vector, give
from tests.spark.featured_table import Given as Feature
from tests.spark.given_source import Given
from tests.worlds.server import INCREMENTAL, LATE, MISSING, PARTS, WHOLE, Late, Server, Unfiltered, Whole
from tests.worlds.table import key_of, problems, rows
from tests.worlds.times_model import PIPELINES, Copies, Model, Moment, Reading

MODES = [
    *(
        (stream.__name__, mode)
        for stream in INCREMENTAL
        for mode in ("append_dedup", "append")[stream in {Late, Unfiltered} :]
    ),
    *((stream.__name__, mode) for stream in WHOLE for mode in ("append_dedup", "overwrite", "append")),
]
STREAMS = {stream.__name__: stream for stream in (*WHOLE, *INCREMENTAL)}
ONCE = {"Divided", "Dated", "DatedParts", "Unfiltered"}
"""Streams of parts, each of which a sync reads once, though it is cut and goes on later."""
TYPES: tuple[Mapping[str, Json], ...] = ({"type": "integer"}, {"type": "number"}, {"type": "string"})
HELD = {"long": ("integer",), "double": ("integer", "number"), "string": ("integer", "number", "string")}
"""What columns hold as they are."""
OWN: Mapping[str, Json] = {
    "n": {"type": "integer"},
    "id": {"type": "integer"},
    "at": {"type": "string"},
    "part": {"type": "integer"},
    "place": {"type": "string"},
}
PLACES = ("New York", "a/b%20c=ü", "x", None)
"""Values of a column that may divide the table: the folders of other writers spell them in ways of their own."""
IDS = st.sampled_from([0, 1, 2, 3, 4, 0, 1, None, MISSING, "A7", 1.5])
VALUES = st.sampled_from([None, 1, 2**40, 0.5, "x", True, {"a": 1}, {"b": 2}])
FIELDS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=2)
RECORDS = st.lists(st.tuples(IDS, st.sampled_from([0, 1, 24]), st.integers(0, 2), FIELDS), min_size=1, max_size=5)
MOMENTS = st.sampled_from(
    [("tasks", 0), ("request", 0), ("tasks", 1), ("request", 1), ("tasks", 0), ("request", 3), ("tasks", 3)]
)
"""When something happens in a sync: at a request, or after tasks have returned, which is right before a commit."""
WHICH = st.integers(0, 9)
STRING, BOOLEAN, DOUBLE, LONG = map(PrimitiveType, ("string", "boolean", "double", "long"))
ADDED = (STRING, STRING, STRING, STRING, BOOLEAN, DOUBLE, BOOLEAN, StructType([Field("a", LONG)]), LONG, LONG)
"""The types of columns that others add."""
VECTORS = Feature(
    ["deletionVectors", "checkConstraints", "appendOnly", "invariants"],
    ["deletionVectors"],
    FEATURES["deletion vectors"].properties,
)
EACH_ROW = Limits(group_rows=1, file_bytes=1, partitions=1, open_files=1, gathered=1, held_bytes=1)
"""Writers and tasks that let nothing wait."""
OPEN = Limits(group_rows=1)
"""Writers that have begun their file with the first row, and end it with their task."""
DEEDS = (
    *("delete by vector", "optimize", "vacuum", "append", "delete", "delete by vector", "constrain", "add a column"),
    *("overwrite", "merge", "rewrite", "sort"),
)
"""What others do to the table."""
EDITS = st.sampled_from(["rewind", "rollback", "set", "reset a part", "reset", "rollback with rows"])
"""What a person does to a state."""
DAY = timedelta(days=1)
RETAINED = 20
"""States of a table that are retained before the newest."""
ALWAYS = [(kind, n) for kind in ("request", "tasks") for n in range(40)]
"""At each request, and whenever tasks have returned."""
FIRST, SECOND, THIRD = PIPELINES
OTHERS = st.sampled_from([(SECOND,), (SECOND, THIRD)])


class Times(RuleBasedStateMachine):
    """One table, the pipelines that fill it, and everybody else.

    settled: the last sync got to its end, and since then nothing has happened that leaves rows out. past: the
    model, and how many records there were, by the version of the table. again, lost: the history may have rows more
    often than they came, or may lack some. undone: the first pipeline's marker when somebody restored the table
    during this sync; moved: the one that a person gave it during this sync; marker_before: that when it began.
    behind: pipelines whose rows the history may lack until they sync, for somebody has restored it, and it has followed
    to the state followed of each.
    columns_changed: somebody took columns away during this sync, or their types. crowded: others commit so often
    meanwhile that a sync which has to be alone may give up. workers, streams: what runs of one process have in common.
    """

    def __init__(self) -> None:
        super().__init__()
        self._temporary = TemporaryDirectory()
        self.folder = Path(self._temporary.name)
        self.table, self.history_table = self.folder / "things", self.folder / "things_history"
        self.server = Server()
        self.model = Model()
        self.past: dict[int, tuple[dict[Json, int], dict[str, Reading], Copies, int]] = {}
        self.settled, self.key = True, "id"
        self.again = self.lost = self.crowded = self.columns_changed = self.constrained = False
        self.undone: tuple[int | None] | None = None
        self.moved: int | None = None
        self.marker_before: int | None = None
        self.streams: dict[str, Stream] = {}
        self.behind: set[str] = set()
        self.followed: dict[str, int] = {}
        self.schema: dict[str, Mapping[str, Json]] = {}
        self.next_foreign = -1
        self.vectors: dict[str, set[int]] | None = None
        self.after_tasks: dict[int, Callable[[], None]] = {}
        self.spreads = 0
        self._looked_at: object = None

    def teardown(self) -> None:
        self._temporary.cleanup()

    @initialize(
        mode=st.sampled_from(MODES),
        interval=st.sampled_from([0, 30]),
        by=st.sampled_from([None, None, "part", "n", "place"]),
        policy=st.sampled_from(["evolve", "evolve", "freeze", "discard"]),
        more=st.sampled_from(["", "", "history", "history", "soft", "hard", "report", "history hard"]),
        limits=st.sampled_from([DEFAULT_LIMITS, EACH_ROW, OPEN]),
        beside=st.sampled_from([False, False, False, True]),
        records=RECORDS,
        first=st.sampled_from([0, 1, 3]),
        lasting=st.booleans(),
    )
    def begin(  # noqa: PLR0917 - all that a world is made of
        self,
        mode: tuple[str, str],
        interval: int,
        by: str | None,
        policy: str,
        more: str,
        limits: Limits,
        beside: bool,  # noqa: FBT001
        records: list[tuple[Json, int, int, Json]],
        first: int,
        lasting: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Make a world. first: records of a page of its first sync; 0: there was none. lasting: one process syncs."""
        self.stream, self.mode = mode
        self.whole = STREAMS[self.stream] in WHOLE
        self.interval, self.beside, self.limits, self.lasting = interval, beside, limits, lasting
        self.options: dict[str, Json] = {"write_mode": self.mode, "schema": policy}
        if by is not None:
            self.options["partition_by"] = by
        dedup = self.mode == "append_dedup"
        self.history = dedup and "history" in more
        if self.history:
            self.options["history"] = True
        self.removal = more.rpartition(" ")[2] if dedup and self.whole and more not in {"", "history"} else ""
        if self.removal:
            self.options["remove_stale"] = {"removal": self.removal, "fail_safe_threshold": 100, "allow_empty": True}
        if self.mode == "overwrite":
            # The only record may have no key, and rows of others have one.
            self.options["remove_stale"] = {"allow_empty": True}
        self.workers = Workers(self._spread, 1, limits=limits)
        self._put(records)
        if first:
            self.sync(first)

    # What the source does.

    # What was read to its end is not asked again by the rest of a cut sync: a partition, or all, where a person has set
    # the state to right before the read was complete.
    @precondition(lambda self: not self.whole or self._uncut or not (self.stream == "Divided" or self._edited_cut))
    @rule(records=RECORDS)
    def put(self, records: list[tuple[Json, int, int, Json]]) -> None:
        self._put(records)

    def _put(self, records: list[tuple[Json, int, int, Json]]) -> None:
        # The rest of a cut sync does not ask for a window again that was over and read to its end.
        past = 24 if self.stream in ONCE and not self._uncut else 0
        if self.stream == "Unfiltered":
            self.server.settle()
        if self.stream == "Late":
            self.server.settle(LATE)
            records = [(id, hours if form else -hours, form, fields) for id, hours, form, fields in records]
        for id, hours, form, fields in records:
            place = {"place": PLACES[crc32(repr(id).encode()) % len(PLACES)]}
            self.server.put(id, {**fields, **place}, max(hours, past) if past else hours, form)

    # Pages have to be the same when a cut sync goes on, that of the stream beside, too.
    @precondition(lambda self: self.whole and self._uncut and not self.beside and len(self.server.present) > 1)
    @rule(which=WHICH)
    def take_away(self, which: int) -> None:
        present = self.server.present
        self.server.gone.add(present[which % len(present)]["n"])

    @rule(name=st.sampled_from("abc"), kind=st.integers(0, 2))
    def declare(self, name: str, kind: int) -> None:
        """The schema declares a field, as a type that is as wide as the one before."""
        before = self.schema.get(name)
        self.schema[name] = TYPES[kind if before is None else max(kind, TYPES.index(before))]

    # What the pipelines do.

    @rule(size=st.integers(1, 5))
    def sync(self, size: int) -> None:
        self.server.page_size = size
        self._sync(FIRST)

    @precondition(lambda self: self._second_may_sync)
    @rule(size=st.integers(1, 5), name=st.sampled_from([SECOND, THIRD]))
    def sync_under_another_name(self, size: int, name: str = SECOND) -> None:
        """The pipeline was renamed, or there are others for the same table."""
        self.server.page_size = size
        self._sync(name)

    @precondition(lambda self: self.mode == "append_dedup" and self.model.readings[FIRST].read and not self.removal)
    @rule(name=st.sampled_from(PIPELINES))
    def sync_with_another_key(self, name: str) -> None:
        # Where a pipeline reads all again, its new key has its rows.
        if self._exists() and self._refusal(name) is None and not (self.whole and name == FIRST):
            self.key = "n"
            self._refused(name, "primary_key")
            self.key = "id"

    @rule(size=st.integers(1, 5), request=st.integers(0, 6))
    def sync_that_is_cut(self, size: int, request: int) -> None:
        self._sync_while(size, [("request", request)], self.server.fail)

    @rule(size=st.integers(1, 5), moment=MOMENTS, what=st.sampled_from(DEEDS), which=WHICH)
    def sync_while_somebody(self, size: int, moment: tuple[str, int], what: str, which: int) -> None:
        self._sync_while(size, [moment], lambda: self._do(what, which))

    # Two who delete at once refuse each other; that is not the sync's business.
    @rule(size=st.integers(1, 5))
    def sync_while_neighbours_append_all_the_while(self, size: int) -> None:
        self.crowded = True
        self._sync_while(size, ALWAYS, lambda: self._do("append", 0))
        self.crowded = False

    # delta-rs restores files without their vectors.
    @precondition(lambda self: len(self.past) > 1 and self.vectors is None)
    @rule(size=st.integers(1, 5), moment=MOMENTS, which=WHICH)
    def sync_while_somebody_restores(self, size: int, moment: tuple[str, int], which: int) -> None:
        self._sync_while(size, [moment], lambda: self._restore(which))
        self.undone = None

    @rule(size=st.integers(1, 5), moment=MOMENTS, verb=EDITS, which=st.integers(0, RETAINED))
    def sync_while_a_person_moves_its_state(self, size: int, moment: tuple[str, int], verb: str, which: int) -> None:
        """On another machine, where no lock keeps them out."""
        self._sync_while(size, [moment], lambda: self._edit_beside(verb, which))
        self.moved = self.undone = None

    def _edit_beside(self, verb: str, which: int) -> None:
        """Move the state of the sync that runs: for it, that is what a kill would have been right then."""
        marker = self._marker(FIRST) if self._exists() else None
        if marker is None:
            return
        admin = Admin(LocalFolder(self.folder), FIRST)
        saved = admin.status(StreamLocation("things", LocalFolder(self.table))).saved
        has_committed = marker != self.marker_before
        # The stream beside goes on after this one has ended.
        if saved is None or (has_committed and saved.complete):
            return
        model, settled = deepcopy(self.model), self.settled
        reading = self.model.readings[FIRST]
        reading.moved(number(marker), self._moment(reading), None)
        reading.cut, self.settled = reading.cut or has_committed, settled and not has_committed
        self.edit_state(FIRST, verb, which)
        if self._marker(FIRST) == marker:
            self.model, self.settled = model, settled
        else:
            self.moved = self._marker(FIRST)

    @precondition(lambda self: self.history)
    @rule(size=st.integers(1, 5), moment=MOMENTS, which=WHICH)
    def sync_while_somebody_restores_the_history(self, size: int, moment: tuple[str, int], which: int) -> None:
        before = number(self._marker(FIRST) or 0) if self._exists() else 0
        self._sync_while(size, [moment], lambda: self._restore_history(which))
        # What was merged while the sync went on without its history is in no file that is left.
        self.lost |= self._exists() and self._went_on_without_history(before)
        self.sync(size)

    def _went_on_without_history(self, before: int) -> bool:
        """Whether a state says so of its rows that is newer than the one of a number."""
        blobs = (self.table / "_cdk_state" / FIRST).glob("*.json")
        return any(json.loads(blob.read_bytes())["logged"] == [] for blob in blobs if number(int(blob.stem)) > before)

    @rule(size=st.integers(1, 5), moment=MOMENTS, vacuum=st.booleans())
    def sync_while_somebody_joins_files(self, size: int, moment: tuple[str, int], vacuum: bool) -> None:  # noqa: FBT001
        # A file more, so that there are some to join.
        self._do("append", 0)
        self._sync_while(size, [moment], lambda: self._do("vacuum" if vacuum else "optimize", 0))

    @precondition(lambda self: self.mode != "append")
    @rule(size=st.integers(1, 5), moment=MOMENTS, new=st.booleans(), others=OTHERS)
    def sync_while_another_pipeline_syncs(
        self,
        size: int,
        moment: tuple[str, int],
        new: bool,  # noqa: FBT001
        others: Sequence[str] = (SECOND,),
    ) -> None:
        if new:
            # All bring a key that nobody has brought, and nothing else.
            self.sync(size)
            for other in others:
                self._sync(other)
            if self._uncut:
                self.server.put(100 + len(self.server.records), {})

        def sync_others() -> None:
            for other in others:
                self._sync(other)

        self._sync_while(size, [moment], sync_others)

    # Restored to where only the other pipeline had filled the table, this one has no state that it could miss.
    @precondition(lambda self: self._exists() and self._marker(FIRST) is not None and self._rows() and self._has_begun)
    @rule(what=st.sampled_from(["states", "marker", "both", "table"]))
    def sync_without(self, what: str) -> None:
        """What says how far was read is gone; somebody brings it back when the sync was refused."""
        if what == "table":
            self._sync_after_a_replacement()
            return
        # Where another pipeline has a state, or nothing comes twice, the first one may begin without one.
        if any(self._marker(name) is not None for name in (SECOND, THIRD)) or (
            what == "both" and not self._appends_again
        ):
            what = "states"
        with ExitStack() as gone:
            if what != "marker":
                gone.enter_context(self._without_states())
            if what != "states":
                gone.enter_context(self._without_marker())
            self._refused(FIRST, "")

    def _sync_after_a_replacement(self) -> None:
        """Another program puts a new table in the place of this one; somebody restores it afterwards."""
        table = DeltaTable(str(self.table))
        # delta-rs restores files without their vectors, and removes none whose names it spells otherwise.
        if self.vectors is not None or unnamable_files(table):
            return
        by = table.metadata().partition_columns
        DeltaTable.create(str(self.table), table.schema(), mode="overwrite", partition_by=by)
        self._refused(FIRST, "belongs to another table")
        DeltaTable(str(self.table)).restore(table.version())

    @property
    def _appends_again(self) -> bool:
        """Whether the table has rows of syncs, and a sync from the start would add them once more."""
        return self.mode == "append" and any(n >= 0 for n in self._numbers())

    # What others do.

    @precondition(lambda self: self._exists())
    @rule(what=st.sampled_from(DEEDS), which=WHICH)
    def somebody(self, what: str, which: int) -> None:
        self._do(what, which)

    @precondition(lambda self: len(self.past) > 1 and self.vectors is None)
    @rule(which=WHICH)
    def restore(self, which: int) -> None:
        self._restore(which)

    def _restore(self, which: int) -> None:
        versions = sorted(set(self.past) - {DeltaTable(str(self.table)).version()})
        versions = [version for version in versions if self._has_states_of(version)]
        if not versions:
            return
        version = versions[which % len(versions)]
        DeltaTable(str(self.table)).restore(version)
        self._was_restored(version)

    def _was_restored(self, version: int) -> None:
        """The table is what it was; the columns that it has gained since are gone with the rest."""
        # Nor does it lack a constraint any more that somebody has dropped.
        self.constrained = self.constrained or self._limit is not None
        busy = [name for name, reading in self.model.readings.items() if reading.busy]
        self.model.there, self.model.readings, self.model.copies, count = deepcopy(self.past[version])
        for name, reading in self.model.readings.items():
            reading.known_to = number(self._marker(name) or 0)  # those between are of rows that are gone
        if self.stream in ONCE:
            # The rest of a cut sync asks for nothing again that was read to its end, whatever has come there or left
            # since; the sync after it does.
            for reading in self.model.readings.values():
                if reading.cut:
                    reading.since = count
                    reading.unsure |= {*range(count, len(self.server.records)), *self.server.gone}
        for name in busy:
            self.model.readings[name].busy = self.columns_changed = True
            self.undone = (self._marker(FIRST),)
        self.settled, self.again = False, True
        # The next commit prunes the states of the versions between; going back to these is refused, and says so.
        self.past = {known: model for known, model in self.past.items() if known <= version}

    @precondition(lambda self: self._exists())
    @rule(name=st.sampled_from([FIRST, FIRST, SECOND]), verb=EDITS, which=st.integers(0, RETAINED))
    def edit_state(self, name: str, verb: str, which: int) -> None:
        """A person moves a pipeline's state, by what `spark-cdk state` has for that."""
        if not self._has_state(name) or self._refusal(name) is not None:
            return
        admin = Admin(LocalFolder(self.folder), name)
        history = LocalFolder(self.history_table) if self.history else None
        location = StreamLocation("things", LocalFolder(self.table), history=history)
        status, moments = admin.status(location), self.model.readings[name].moments
        numbers = [number for number in status.retained if number in moments and number != status.number]
        if verb == "rewind":
            self._rewind(name, admin, location, which)
        elif verb == "reset a part":
            self._reset_part(name, admin, location, which % PARTS)
        elif verb == "reset" or not numbers:
            self._edited(name, admin.reset(location), Moment(), cut=False)
        elif verb == "rollback with rows":
            self._roll_back_with_rows(name, admin, location, numbers[which % len(numbers)])
        else:
            self._set_back(name, admin, location, verb, numbers[which % len(numbers)])

    @precondition(lambda self: not self.whole and self._exists())
    @rule(name=st.sampled_from([FIRST, FIRST, SECOND]), which=WHICH)
    def rewind(self, name: str, which: int) -> None:
        self.edit_state(name, "rewind", which)

    @precondition(lambda self: self.stream in {"Divided", "DatedParts"} and self._exists())
    @rule(name=st.sampled_from([FIRST, FIRST, SECOND]), part=st.integers(0, PARTS - 1))
    def reset_a_part(self, name: str, part: int) -> None:
        self.edit_state(name, "reset a part", part)

    def _roll_back_with_rows(self, name: str, admin: Admin, location: StreamLocation, chosen: int) -> None:
        log = (commit for commit, _ in admin.log(location) if commit.state is not None)
        version = next((commit.version for commit in log if number(commit.state or 0) == chosen), -1)
        # delta-rs restores files without their vectors.
        if version not in self.past or self.vectors is not None or not self._has_states_of(version):
            return
        moment = self.model.readings[name].moments[chosen]
        if admin.rollback(location, chosen, tables=True).version is None:
            return
        self._note_history(name)
        self._was_restored(version)
        self.model.readings[name].moments[number(self._marker(name) or 0)] = moment

    def _set_back(self, name: str, admin: Admin, location: StreamLocation, verb: str, chosen: int) -> None:
        older, moment = admin.at(location, chosen), self.model.readings[name].moments[chosen]
        # Its pages are others since.
        if not older.complete and self.whole and moment.gone != self.server.gone:
            return
        if verb == "set":
            if older.state is None:
                return
            result = admin.change(location, lambda saved: import_state(saved, self._stream(), older.state))
        else:
            try:
                result = admin.rollback(location, chosen)
            except StateError:
                # Rows that were waiting then are visible now, or were given up.
                if older.pending:
                    return
                raise
        if result.change.saved.state is None:
            self._edited(name, result, Moment(), cut=False)
        else:
            self._edited(name, result, moment, cut=not older.complete)

    def _edited(self, name: str, result: EditResult, moment: Moment, *, cut: bool) -> None:
        """Bring the model to what a person has made of a state; the rows stay. cut: it is one of an unfinished read."""
        if result.version is None:
            return
        self._note_history(name)
        reading, copies = self.model.readings[name], self.model.copies
        self._may_come_again(name, range(len(self.server.records)))
        reading.read, reading.cut, reading.edited, reading.since = moment.read, cut, cut, None
        reading.again = {*moment.again}
        reading.moved(number(self._marker(name) or 0), moment, None)
        copies.vague |= moment.ahead
        if cut:
            copies.vague |= {*reading.to_read(len(self.server.records), whole=self.whole)}
            self._may_come_late(reading, range(len(self.server.records)))
            if self.stream in ONCE:
                reading.since = moment.count
                reading.unsure |= {*range(moment.count, len(self.server.records))}

    def _may_come_again(self, name: str, numbers: Iterable[int]) -> None:
        """An interrupted sync has brought some of these records, which a person has it read once more."""
        reading = self.model.readings[name]
        if reading.cut:
            read = reading.to_read(len(self.server.records), whole=self.whole)
            self.model.copies.more.update({*numbers} & {*read})

    def _may_come_late(self, reading: Reading, numbers: Iterable[int]) -> None:
        """Where a key has another row since, or none, one cannot be sure of these records, which may be read again."""
        last = {self._key(record): record["n"] for record in self.server.present}
        sure = {n for key, n in self.model.there.items() if not self.whole or last.get(key, n) == n}
        reading.unsure |= {*numbers} - sure

    def _reset_part(self, name: str, admin: Admin, location: StreamLocation, part: int) -> None:
        saved = admin.status(location).saved
        if self.stream not in {"Divided", "DatedParts"} or saved is None or (self.whole and saved.complete):
            return
        if not any(where.startswith(f'{{"part":{part}}} ') for where, _ in values(saved.state)):
            return
        result = admin.reset(location, Partition.of(part=part))
        if self.mode == "overwrite":
            self._edited(name, result, Moment(), cut=False)
        else:
            self._come_again(name, result, {r["n"] for r in self.server.records if r["part"] == part})

    def _rewind(self, name: str, admin: Admin, location: StreamLocation, which: int) -> None:
        if self.whole or not (present := self.server.present):
            return
        n = present[which % len(present)]["n"]
        counts, times = self.stream in {"Counted", "Ordered"}, self.server.times
        to = str(self.server.version(n)) if counts else times[n].isoformat()
        saved = admin.status(location).saved
        stood = {} if saved is None else dict(values(saved.state))
        result = admin.change(location, lambda saved: rewound(saved, self._stream(), to))

        def reaches(record: Record) -> bool:
            """Whether the cursor of its partition lies there, or beyond."""
            part = f'{{"part":{record["part"]}}} ' if self.stream == "DatedParts" else ""
            at = stood.get(f"{part}{'v' if counts else 'at'}")
            if at is None:
                return False
            return int(f"{at}") >= int(to) if counts else datetime.fromisoformat(f"{at}") >= times[n]

        cells = {record["n"] for record in self.server.records if reaches(record)}
        since = {r for r in cells if times[r] >= times[n]}
        looked_back = {r for r in cells - since if self.stream == "Late" and times[r] >= times[n] - LATE - 2 * DAY}
        self._come_again(name, result, since, looked_back)

    def _come_again(self, name: str, result: EditResult, numbers: set[int], some: Iterable[int] = ()) -> None:
        """A person has these records read once more, and perhaps some others, wherever the state stands."""
        if result.version is None:
            return
        self._note_history(name)
        reading = self.model.readings[name]
        if reading.cut:
            read = {n for n in range(len(self.server.records)) if n < reading.read}
            self.model.copies.more.update(read & {*numbers, *some})
            self._may_come_again(name, numbers)
            self._may_come_late(reading, {*numbers, *some})
        else:
            reading.late |= {n for n in some if n < reading.read}
            reading.again |= {n for n in numbers if n < reading.read}
        reading.moved(number(self._marker(name) or 0), self._moment(reading), None)

    @precondition(lambda self: self._exists() and self._marker(FIRST) is not None)
    @rule(name=st.sampled_from([SECOND, THIRD]))
    def fork(self, name: str) -> None:
        """The pipeline gets another name, or a second one begins where it stands."""
        admin, location = Admin(LocalFolder(self.folder), FIRST), StreamLocation("things", LocalFolder(self.table))
        saved = admin.status(location).saved
        if self._has_state(name) or saved is None or saved.pending:
            return
        admin.fork(location, name)
        self.again = True
        reading = self.model.readings[name] = deepcopy(self.model.readings[FIRST])
        marker = number(self._marker(name) or 0)
        reading.moments, reading.known_to = {}, marker - 1
        reading.moved(marker, self._moment(reading), None)
        if reading.cut:
            reading.edited = True
            self.model.copies.vague |= {*reading.to_read(len(self.server.records), whole=self.whole)}

    def _moment(self, reading: Reading) -> Moment:
        """What a state is of that a pipeline has now."""
        return Moment(reading.read, len(self.server.records), frozenset(self.server.gone), frozenset(reading.again))

    def _note_history(self, name: str) -> None:
        """The history has all rows before a state is moved, also those of a sync that was cut."""
        if self.history:
            self.again = True
            self._follows(name)
            self.model.logged |= Counter(row["n"] for row in rows(self.history_table))

    def _restore_history(self, which: int) -> None:
        if not DeltaTable.is_deltatable(str(self.history_table)):
            return
        log = DeltaTable(str(self.history_table))
        older = DeltaTable(str(self.history_table), version=which % (log.version() + 1))
        if older.version() < log.version() and all(Path(path).exists() for path in older.file_uris()):
            # Without a state it is filled from the table's log, which lacks rows that were merged as they came.
            states = {name: f"spark-cdk/{name}/things/history" for name in PIPELINES}
            self.behind = {name for name, app in states.items() if log.transaction_version(app) is not None}
            markers = {name: older.transaction_version(states[name]) for name in self.behind}
            self.lost |= None in markers.values()
            # What came since is copied from its files, as far as no VACUUM has removed them.
            since = (DeltaTable(str(self.history_table), version=n) for n in range(older.version(), log.version()))
            self.lost |= not all(Path(path).exists() for version in since for path in version.file_uris())
            self.followed = {name: self._followed(name, marker) for name, marker in markers.items()}
            log.restore(older.version())

    def _followed(self, name: str, marker: int | None) -> int:
        """The number of the table's state up to which a state of the history has all rows."""
        blob = self.history_table / "_cdk_state" / name / f"{marker}.json"
        return number(json.loads(blob.read_bytes())["state"] or 0) if blob.exists() else 0

    @precondition(lambda self: self.history)
    @rule()
    def lose_history(self) -> None:
        shutil.rmtree(self.history_table, ignore_errors=True)
        self.lost = True

    # What must hold.

    @invariant()
    def nothing_is_there_twice_and_what_is_there_is_whole(self) -> None:
        if not self._exists():
            return
        present = (self._version(self.table), self._version(self.history_table), self.settled, self._uncut)
        if present == self._looked_at:
            return
        self._looked_at = present
        known = {record["n"]: record for record in self.server.records}
        there: dict[Json, int] = {}
        numbers = Counter[int]()
        for row in self._rows():
            n = row["n"]
            numbers[n] += 1
            there[self._key(known[n]) if n >= 0 else f"foreign {n}"] = n
            assert n < 0 or not (lost := list(problems(row, known[n]))), lost
        twice = [n for n, times in numbers.items() if times > 1]
        if self.mode == "append":
            twice = [*(n for n in twice if n < 0), *self.model.copies.too_many(numbers, self._being_read)]
        wrong = [n for n in twice if n < 0 or not self._may_become_another(known[n])]
        assert not wrong, wrong
        assert self._limit is None or all(n < self._limit for n in numbers)
        if self.settled:
            unsure = self.model.unsure
            assert set(numbers) - unsure == set(self.model.there.values()) - unsure
            self._check_copies(numbers, unsure)
            self.model.seen(there)
            self._check_history(unsure)
        model = (self.model.there, self.model.readings, self.model.copies, len(self.server.records))
        self.past[self._version(self.table)] = deepcopy(model)

    @property
    def _being_read(self) -> Counter[int]:
        """How often syncs that were interrupted may have brought each record."""
        count, readings = len(self.server.records), self.model.readings.values()
        cut = (reading.to_read(count, whole=self.whole) for reading in readings if reading.cut)
        return Counter(chain.from_iterable([*cut, *(reading.late for reading in readings)]))

    def _check_copies(self, numbers: Counter[int], unsure: set[int]) -> None:
        if self.mode != "append":
            return
        copies = self.model.copies
        assert not (lost := copies.too_few(numbers, unsure)), lost
        if self._uncut:
            begun = [reading.read for reading in self.model.readings.values() if reading.moments]
            copies.seen(numbers, {*range(min(begun, default=0), len(self.server.records))})

    def _check_history(self, unsure: set[int]) -> None:
        if not self.history or not DeltaTable.is_deltatable(str(self.history_table)):
            return
        found, logged = Counter(row["n"] for row in rows(self.history_table)), self.model.logged
        # What a cut sync has read is there, and its pipeline has not come to its end.
        cut = sum(reading.cut for reading in self.model.readings.values())
        assert cut or set(found) <= set(logged)
        most = logged + Counter(dict.fromkeys(found, cut))
        assert self.again or not (twice := found - most), twice
        missing = set(logged) - set(found) if self.again else set(logged - found)
        assert self.lost or self.behind or missing <= unsure, missing

    # How it is done.

    def _sync(self, name: str) -> None:
        """A sync that nobody disturbs: it is right, or refused for a reason that is known."""
        if (why := self._refusal(name)) is not None:
            self._refused(name, why)
            return
        self._follows(name)
        report = self._run(name)
        self._check_ended(report, [])
        self._ended(name, report)

    def _follows(self, name: str) -> None:
        """The history gets a pipeline's rows that it lacks."""
        if name in self.behind:
            self.behind.discard(name)
            # The states between say which rows it lacks. Without them it is filled from the table's log.
            self.lost |= number(self._marker(name) or 0) - self.followed.get(name, 0) >= RETAINED

    def _sync_while(self, size: int, moments: Sequence[tuple[str, int]], work: Callable[[], None]) -> None:
        """Sync, and do some work at each of these moments. It may fail then; the next sync makes it right."""
        if self._refusal(FIRST) is not None:
            return
        self.server.page_size = size
        errors: list[Exception] = []

        def watched() -> None:
            try:
                work()
            except Exception as error:
                errors.append(error)
                raise

        for kind, n in moments:
            (self.server.at if kind == "request" else self.after_tasks)[n] = watched
        report = self._run(FIRST)
        self.server.at, self.after_tasks = {}, {}
        # An error of this test must not pass for one of the server.
        assert all(isinstance(error, TransientError) for error in errors), errors
        self._check_ended(report, errors)
        self._ended(FIRST, report)

    def _check_ended(self, report: StreamReport, errors: Sequence[Exception]) -> None:
        """It got to its end, or was kept from it by an error of the source or by what the table has got meanwhile."""
        if report.status is Status.DONE:
            return
        assert report.failure is not None
        if self.moved is not None and "another run moved this stream's state while" in report.failure.message:
            return
        if self.undone is not None and "was restored to an older version while this run was" in report.failure.message:
            return
        if self.columns_changed and "were removed or narrowed while this run was reading" in report.failure.message:
            return
        if self.crowded and "another writer has changed the table during each of 5 attempts" in report.failure.message:
            return
        if not errors or report.failure.message != str(errors[0]):
            assert self.constrained or self.vectors is not None, report.failure
            assert report.failure.failure_type == "config_error", report.failure
            reasons = ("constraints refuse rows", "wider columns is refused")
            assert any(reason in report.failure.message for reason in reasons), report.failure

    def _run(self, name: str) -> StreamReport:
        reading = self.model.readings[name]
        if self.whole and not reading.cut:
            reading.unsure = set()
        reading.busy, self.spreads, self.columns_changed = True, 0, False
        self.marker_before = self._marker(name) if self._exists() else None
        # Somebody may drop the constraint while the stream beside goes on, after this one has ended with its error.
        self.constrained = self._limit is not None
        stream = self._stream()
        streams = {stream.name: StreamOptions.model_validate(self.options)}
        beside = Whole(self.server, {"type": "object", "properties": OWN})
        beside.name = "besides"
        if self.beside:
            own = {"write_mode": "overwrite", "remove_stale": {"allow_empty": True}}
            streams[beside.name] = StreamOptions.model_validate(own)
        pipeline = Pipeline(
            name=name,
            source=SourceOptions(connector="given"),
            target=TargetOptions(path=str(self.folder)),
            streams=streams,
            checkpoint_interval=timedelta(seconds=self.interval),
        )
        workers = self.workers if self.lasting else Workers(self._spread, 1, limits=self.limits)
        report, *others = SyncRunner(pipeline, Given([stream, beside]), workers=workers).run().streams
        self.model.readings[name].busy = False
        for other in others:
            if other.status is Status.DONE:
                found = Counter(row["n"] for row in rows(self.folder / beside.name))
                assert found == Counter(record["n"] for record in self.server.present)
        return report

    def _stream(self) -> Stream:
        stream = STREAMS[self.stream](self.server, {"type": "object", "properties": {**OWN, **self.schema}})
        stream.primary_key = self.key
        # A process that syncs again has streams that were read before.
        return self.streams.setdefault(f"{self.key} {self.schema}", stream) if self.lasting else stream

    def _spread(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        self.spreads += 1
        assert self.spreads < 500, "the sync does not end"
        results = run_inline(work, items)
        due, self.after_tasks = self.after_tasks.get(0), {n - 1: work for n, work in self.after_tasks.items() if n}
        if due is not None:
            due()
        return results

    def _ended(self, name: str, report: StreamReport) -> None:
        """Bring the model to where the sync has brought the table."""
        reading = self.model.readings[name]
        count, before = len(self.server.records), self._moment(reading)
        marker = number(self._marker(name) or 0) if self._exists() else 0
        if name == FIRST and self.moved is not None:
            # What a person has said holds, whether the sync had anything left to commit or not.
            assert self._marker(FIRST) == self.moved
            self.settled = False
            return
        if report.status is not Status.DONE:
            # Restored, and nothing committed since: it is what it was then, perhaps before its first sync.
            reading.cut, self.settled = reading.cut or self.undone != (self._marker(FIRST),), False
            reading.moved(marker, before, None)
            return
        if self.undone == (self._marker(FIRST),):
            return  # it had nothing left to commit, and the table is what it was restored to
        why = "" if report.stale is None or self.removal == "report" else report.stale.retained_because
        # Of rows that another pipeline has read meanwhile, only the next read can tell what is gone.
        stays = any(why.startswith(f"the pipeline {other} has written") for other in PIPELINES if other != name)
        stays |= reading.edited and why.startswith("it is uncertain whether the read was complete")
        assert stays or not why, report.stale
        known = [self.server.records[n] for n in reading.to_read(count, whole=self.whole)]
        records = [(self._key(record), record["n"]) for record in known if record["n"] not in self.server.gone]
        removes = self.removal in {"soft", "hard"} and not stays
        self.model.complete(name, records, mode=self.mode, whole=self.whole, removes=removes)
        since, reading.since, reading.edited = reading.since, None, False
        reading.read, self.settled = count if since is None else since, True
        ahead = frozenset(range(reading.read, count))
        self.model.copies.vague |= ahead
        reading.moved(marker, before, replace(self._moment(reading), ahead=ahead))

    def _refused(self, name: str, why: str) -> None:
        """A sync that is refused before the first request, with the reason, and changes nothing."""
        before, requests = DeltaTable(str(self.table)).version(), self.server.requests
        beside, self.beside = self.beside, False
        report = self._run(name)
        self.beside = beside
        assert report.status is Status.FAILED
        assert report.failure is not None
        assert report.failure.failure_type == "config_error", report.failure
        assert why in report.failure.message, report.failure
        assert (DeltaTable(str(self.table)).version(), self.server.requests) == (before, requests)
        self._undeclare()

    def _refusal(self, name: str) -> str | None:
        """Why a sync must be refused; None: it must not."""
        if not self._exists():
            return None
        missing, wider = self._misfits()
        if self.options["schema"] == "freeze" and (missing or wider):
            return "the table and the stream's schema differ"
        if self.options["schema"] == "evolve" and wider and (self.vectors is not None or self._limit is not None):
            return "deletion vectors" if self._limit is None else "CHECK constraints"
        if name != FIRST and self.mode == "append" and self._rows() and not self._has_state(name):
            return f"none of {name!r}"
        return None

    def _misfits(self) -> tuple[list[str], list[str]]:
        """Fields that are declared and have no column, and those whose column is not of a type that holds theirs."""
        fields = {field.name: field.type for field in DeltaTable(str(self.table)).schema().fields}
        kinds = {name: kind.type if isinstance(kind, PrimitiveType) else "nested" for name, kind in fields.items()}
        missing = [name for name in self.schema if name not in kinds]
        held = {name: HELD.get(kinds[name], ()) for name in self.schema if name in kinds}
        return missing, [name for name in held if self.schema[name]["type"] not in held[name]]

    def _undeclare(self) -> None:
        """Change the schema back to what the table is."""
        missing, wider = self._misfits()
        self.schema = {name: kind for name, kind in self.schema.items() if name not in (*missing, *wider)}

    def _has_state(self, name: str) -> bool:
        return self._marker_of_rows(name, self._version(self.table)) is not None

    @property
    def _second_may_sync(self) -> bool:
        if self.mode == "append":
            return self._exists() and self._marker(FIRST) is not None and bool(self._rows())
        return True

    @property
    def _has_begun(self) -> bool:
        first = self.model.readings[FIRST]
        return first.cut or first.read > 0

    @property
    def _edited_cut(self) -> bool:
        return any(reading.edited for reading in self.model.readings.values())

    @property
    def _uncut(self) -> bool:
        return not any(reading.cut for reading in self.model.readings.values())

    def _key(self, record: Record) -> Json:
        return key_of(record, "integer") if self.mode == "append_dedup" else record["n"]

    def _do(self, what: str, which: int) -> None:
        """Do what others do. which: row, or column, or how much a constraint leaves free."""
        if not self._exists():
            return
        table = DeltaTable(str(self.table))
        deeds: Mapping[str, Callable[[], object]] = {
            "optimize": self._optimize,
            "vacuum": self._vacuum,
            "append": self._append,
            "delete": lambda: self._delete(which),
            "delete by vector": lambda: self._delete_by_vector(which),
            "constrain": lambda: self._constrain(which),
            "add a column": lambda: self._add_column(which),
            "overwrite": lambda: self._overwrite(which),
            "merge": lambda: self._merge(which),
            "rewrite": lambda: table.update(updates={"n": "n"}, predicate=f"n >= {which}"),
            "sort": lambda: table.optimize.z_order(["id"]),
        }
        deeds[what]()

    def _may_become_another(self, record: Record) -> bool:
        """Whether it is told apart by all that it holds, and a column of doubles that became text spells that anew."""
        whole = any(type(record.get(name)) is int for name in "abc")
        return self.mode == "append_dedup" and record.get("id") is None and whole

    def _optimize(self) -> None:
        for table in (self.table, self.history_table):
            if DeltaTable.is_deltatable(str(table)):
                DeltaTable(str(table)).optimize.compact()

    def _vacuum(self) -> None:
        self._optimize()
        for table in (self.table, self.history_table):
            if DeltaTable.is_deltatable(str(table)):
                DeltaTable(str(table)).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        # Versions whose files are gone cannot be restored.
        self.past = {}

    def _append(self) -> None:
        schema = pa.schema(DeltaTable(str(self.table)).schema().to_arrow())
        self._write(schema, lambda row: write_deltalake(str(self.table), row, mode="append"))

    def _overwrite(self, which: int) -> None:
        """Put one row in the place of all, with fewer columns or others. which: a column less each, or booleans."""
        for n in self._numbers(every=True):
            self._deleted(n)
        self.vectors, self.columns_changed = None if self.vectors is None else {}, True
        table, some = DeltaTable(str(self.table)), "abcd"[: which // 2]
        fields = list(pa.schema(table.schema().to_arrow()))
        if which % 2:
            fields = [field for field in fields if field.name not in some]
        else:
            fields = [pa.field(field.name, pa.bool_()) if field.name in some else field for field in fields]
        self._write(
            pa.schema(fields),
            lambda row: write_deltalake(
                str(self.table),
                row,
                mode="overwrite",
                schema_mode="overwrite",
                partition_by=table.metadata().partition_columns or None,
            ),
        )

    def _merge(self, which: int) -> None:
        """Add a row, and write those again that have some of the numbers."""
        schema = pa.schema(DeltaTable(str(self.table)).schema().to_arrow())
        numbers = [{"n": n} for n in sorted(self._numbers(every=True))[:which]]

        def merge(row: pa.Table) -> None:
            source = pa.concat_tables([row, pa.Table.from_pylist(numbers, schema.empty_table().schema)])
            table = DeltaTable(str(self.table))
            merger = table.merge(source, "t.n = s.n", source_alias="s", target_alias="t")
            merger.when_matched_update({"n": "s.n"}).when_not_matched_insert_all().execute()

        self._write(schema, merge)

    def _write(self, schema: pa.Schema, write: Callable[[pa.Table], None]) -> None:
        n, self.next_foreign = self.next_foreign, self.next_foreign - 1
        row = {"n": n, "id": 1000 - n, "part": 0}
        write(pa.Table.from_pylist([{name: value for name, value in row.items() if name in schema.names}], schema))
        self.model.there[f"foreign {n}"] = n
        if self.beside and self.mode == "overwrite":
            # The sync may go on with the stream beside, long after it has replaced all rows of this one.
            self.model.came_meanwhile(n)

    def _delete(self, which: int) -> None:
        if numbers := sorted(self._numbers()):
            n = numbers[which % len(numbers)]
            DeltaTable(str(self.table)).delete(f"n = {n}")
            self._deleted(n)

    def _delete_by_vector(self, which: int) -> None:
        if not (numbers := Counter(row["n"] for row in self._rows(every=True))):
            return
        if self.vectors is None:
            self.vectors = {}
            give(self.table, VECTORS)
        counts = pa.table(DeltaTable(str(self.table)).get_add_actions(flatten=True)).to_pylist()
        left = [
            (file["path"], n)
            for file in sorted(counts, key=lambda file: str(file["path"]))
            for n in range(file["num_records"])
            if n not in self.vectors.get(file["path"], ())
        ]
        path, place = left[which % len(left)]
        self.vectors.setdefault(path, set()).add(place)
        delete_by_vector(self.table, {path: sorted(self.vectors[path])})
        after = Counter(row["n"] for row in self._rows(every=True))
        for n in numbers - after:
            self._deleted(n, after[n])

    def _deleted(self, n: int, rest: int = 0) -> None:
        self.model.delete(self._key(self.server.records[n]) if n >= 0 else f"foreign {n}", n, rest)

    def _constrain(self, more: int) -> None:
        """Add a constraint that the rows fit which are there, and not all that come, or take it away."""
        table = DeltaTable(str(self.table))
        if self._limit is not None:
            table.alter.drop_constraint("small")
        else:
            most = max(self._numbers(every=True), default=0)
            table.alter.add_constraint({"small": f"n < {most + 1 + more}"})
            self.constrained = True

    def _add_column(self, which: int) -> None:
        """Add a column that the source may have values for, of a type that may hold them."""
        name, kind = "dabc"[which % 4], ADDED[which]
        table = DeltaTable(str(self.table))
        if name not in [field.name for field in table.schema().fields]:
            table.alter.add_columns(Field(name, kind))

    @property
    def _limit(self) -> int | None:
        """What the constraint wants numbers to be below."""
        if not self._exists():
            return None
        found = DeltaTable(str(self.table)).metadata().configuration.get("delta.constraints.small")
        return None if found is None else int(found.rpartition(" ")[2])

    def _marker(self, name: str) -> int | None:
        marker: int | None = DeltaTable(str(self.table)).transaction_version(f"spark-cdk/{name}/things")
        return marker

    def _has_states_of(self, version: int) -> bool:
        """Whether the states are retained that a version of the table names."""
        for name in PIPELINES:
            marker = self._marker_of_rows(name, version)
            states = [int(path.stem) for path in (self.table / "_cdk_state" / name).glob("*.json")]
            if marker is None or marker in states:
                continue
            # Of a table that was restored, states that were undone leave before older ones.
            restored = any(commit["operation"] == "RESTORE" for commit in DeltaTable(str(self.table)).history())
            assert restored or number(max(states)) - number(marker) >= RETAINED
            return False
        return True

    def _marker_of_rows(self, name: str, version: int) -> int | None:
        """The pipeline's state of the rows of a version: a RESTORE leaves the marker, and brings older rows."""
        commits = {commit["version"]: commit for commit in DeltaTable(str(self.table)).history()}

        def marker(at: int) -> int | None:
            return DeltaTable(str(self.table), version=at).transaction_version(f"spark-cdk/{name}/things")

        while version > 0:
            if commits[version]["operation"] == "RESTORE":
                version = int(commits[version]["operationParameters"]["version"])
            elif marker(version) != marker(version - 1):
                break
            else:
                version -= 1
        return marker(version)

    @contextmanager
    def _without_states(self) -> Iterator[None]:
        states, aside = self.table / "_cdk_state" / FIRST, self.folder / "aside"
        states.rename(aside)
        yield
        shutil.rmtree(states, ignore_errors=True)
        aside.rename(states)

    @contextmanager
    def _without_marker(self) -> Iterator[None]:
        files = {path: path.read_bytes() for path in (self.table / "_delta_log").iterdir()}
        for path, content in files.items():
            if path.suffix == ".json":
                path.write_bytes(b"".join(line for line in content.splitlines(keepends=True) if b'{"txn"' not in line))
            else:
                path.unlink()  # a checkpoint, written after each hundredth commit, has the marker, too
        yield
        for path, content in files.items():
            path.write_bytes(content)

    @staticmethod
    def _version(table: Path) -> int:
        return DeltaTable(str(table)).version() if DeltaTable.is_deltatable(str(table)) else -1

    def _exists(self) -> bool:
        return DeltaTable.is_deltatable(str(self.table))

    def _rows(self, *, every: bool = False) -> list[Record]:
        """The rows that are shown. every: and those that are flagged as removed."""
        return [row for row in rows(self.table) if every or row.get("_ab_cdc_deleted_at") is None]

    def _numbers(self, *, every: bool = False) -> set[int]:
        return {row["n"] for row in self._rows(every=every)}


TestTimes = Times.TestCase
TestTimes.settings = settings(max_examples=14, stateful_step_count=14, report_multiple_bugs=False)
