"""A small pipeline that goes wrong where it is told, in a process of its own: two streams, a sink, a log.

Each page is read, written and committed with its state, as docs/explanation/state-log.md says; the last commit is the
final one. `run` runs it to its end, however that comes; `started` gives it to who wants to pause it.
"""

import multiprocessing
import resource
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from multiprocessing.context import ForkServerProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from cdk import TransientError
from cdk.base.errors import ServerError
from cdk.base.times.clock import Clock
from cdk.base.values import Json
from cdk.state import Kind, Mode, Retention, StateKey, StateLog, StateRecord, StateSession, open_session
from cdk.state.log.session import Write
from cdk.state.stores.local import LocalStore
from tests.state.log.sinks import SINKS, Fault, Reach, Row, rows_in

STREAM = Kind("test/page")
PAGES = {"users": 3, "orders": 2}
EVERYTHING = {(stream, number): 1 for stream, count in PAGES.items() for number in range(2 * count)}
KEPT = Retention(3, timedelta(0))


class FailingStore(LocalStore):
    """A folder that says how far it got: before and after a record is stored, after a blob, after each removal."""

    def __init__(self, folder: Path, reach: Reach) -> None:
        super().__init__(folder)
        self._reach = reach

    def create(self, key: StateKey, seq: int, record: bytes) -> bool:
        self._told("append")
        created = super().create(key, seq, record)
        self._told("appended")
        return created

    def put_blob(self, key: StateKey, name: str, data: bytes) -> None:
        super().put_blob(key, name, data)
        self._told("intent_written" if "-intent-" in name else "blob_written")

    def _delete(self, path: str) -> None:
        super()._delete(path)
        self._told("removed")

    def _told(self, point: str) -> None:
        """A broken line is an error of a store's kind."""
        try:
            self._reach(point)
        except ConnectionError as error:
            raise TransientError(f"the store does not answer: {error}") from error


@dataclass(frozen=True)
class World:
    """A pipeline, and what is to go wrong in its next run.

    mode: the letter of its sink. fault: see `Fault`. broken: the page that the source fails to give. bad: whether the
    second page of users holds a row that the sink refuses. more: further pages of users. clock: when the run believes
    to begin; it goes on by a second each time it is looked at.
    """

    folder: Path
    mode: str
    pipeline: str = "shop"
    read: str = "latest"
    write: Write = "commit"
    fault: str = ""
    broken: tuple[str, int] | None = None
    bad: bool = False
    more: int = 0
    clock: datetime = datetime(2024, 1, 1, tzinfo=UTC)

    @property
    def log(self) -> StateLog:
        return StateLog(LocalStore(self.folder / "state"), StateKey(self.pipeline))

    @property
    def rows(self) -> Counter[Row]:
        return rows_in(self.folder)

    @property
    def everything(self) -> Counter[Row]:
        """What the sink holds when all is well."""
        return Counter(EVERYTHING) + Counter(("users", n) for n in range(6, 6 + 2 * self.more))

    @property
    def pages(self) -> dict[str, int]:
        """How far the newest record says that each stream was read."""
        head = self.log.head()
        return {} if head is None else pages_of(self.log, head)

    @property
    def read_pages(self) -> list[tuple[str, int]]:
        """Every page that the source gave, in order; in all runs."""
        names = sorted(path.name for path in (self.folder / "source").glob("*"))
        return [(stream, int(page)) for _, stream, page in (name.split(" ") for name in names)]

    def but(self, **changes: Json) -> "World":
        return replace(self, **changes)


def pages_of(log: StateLog, record: StateRecord) -> dict[str, int]:
    """How far a record says that each stream was read."""
    slots = [slot for slot in record.slots if slot.startswith("stream:")]
    return {slot.partition(":")[2]: log.value(record, slot).value["page"] for slot in slots}


@dataclass(frozen=True)
class End:
    """How a run ended: `done`, `killed`, or `failed` with the name and text of the error."""

    how: str
    error: str = ""


class Started:
    """A run in a process of its own. reached: set when it came to the point where it is to pause; go: lets it on."""

    def __init__(self, world: World) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self.reached, self.go = context.Event(), context.Event()
        self._error = world.folder / "error.txt"
        self._error.unlink(missing_ok=True)
        self.process: ForkServerProcess = context.Process(target=_main, args=(world, self.reached, self.go))
        self.process.start()

    def end(self) -> End:
        self.process.join(120)
        match self.process.exitcode:
            case 0:
                return End("done")
            case 3:
                return End("failed", self._error.read_text())
            case code:
                assert code == -signal.SIGKILL, f"the run ended with {code}"
                return End("killed")


def run(world: World) -> End:
    """Run the pipeline once."""
    return Started(world).end()


@contextmanager
def paused(world: World, point: str) -> Iterator[Started]:
    """A run that stands at a point while the block lasts, as a machine that sleeps, and then goes on."""
    started = Started(world.but(fault=f"pause@{point}"))
    try:
        assert started.reached.wait(60), "the run never came to the point"
        yield started
    finally:
        started.go.set()


def free_lease(world: World) -> None:
    """Let others run though a run holds the lease: as if on a machine that its lock does not reach."""
    (world.folder / "state" / "default" / world.pipeline / "lease").unlink()


def _main(world: World, reached: Event, go: Event) -> None:
    def waits() -> None:
        reached.set()
        go.wait(60)

    try:
        work(world, Fault(world.fault, waits))
    except Exception as error:  # noqa: BLE001 - the test looks at it
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits[1], limits[1]))
        (world.folder / "error.txt").write_text(f"{type(error).__name__}: {error}")
        raise SystemExit(3) from None


def work(world: World, reach: Reach) -> None:
    """The pipeline."""
    log = StateLog(FailingStore(world.folder / "state", reach), StateKey(world.pipeline), clock=_ticking(world.clock))
    sink = SINKS[world.mode](world.folder, reach)
    marked = sink if sink.marked else None
    mode = Mode(world.read, world.write)
    with open_session(log, mode, run={"mode": world.mode}, retention=KEPT, sink=marked) as session:  # type: ignore[arg-type]  # only the marked one is given
        reach("opened")
        failures = [failure for stream in PAGES for failure in _stream(world, stream, session, sink)]
        session.commit("partial" if failures else "final")
        reach("end")
    if failures:
        raise failures[0]


def _ticking(moment: datetime) -> Clock:
    seconds = count()
    return lambda: moment + timedelta(seconds=next(seconds))


def _stream(world: World, stream: str, session: StateSession, sink: Json) -> Iterable[ServerError]:
    """Read a stream from where it stands; gives what the source said when it failed."""
    before = session.read(f"stream:{stream}", STREAM)
    for number in range(before["page"] if before else 0, _count(world, stream)):
        try:
            rows = _page(world, stream, number)
        except ServerError as error:
            yield error
            return
        session.propose(f"stream:{stream}", STREAM.of(_state(world, number + 1)))
        if world.write == "commit":
            sink.stage(rows)
            sink.flush()
            session.commit("partial", [{"sink": world.mode, "stream": stream, "rows": len(rows)}])


def _count(world: World, stream: str) -> int:
    return PAGES[stream] + (world.more if stream == "users" else 0)


def _page(world: World, stream: str, number: int) -> Sequence[Row]:
    """A page of the source, which keeps a list of what it gave: in names of files, for disks that are full."""
    if world.broken == (stream, number):
        raise ServerError("the source is ill")
    given = world.folder / "source"
    given.mkdir(exist_ok=True)
    (given / f"{len(world.read_pages):04} {stream} {number}").touch()
    bad = [(stream, 1000)] if world.bad and (stream, number) == ("users", 1) else []
    return [(stream, 2 * number), (stream, 2 * number + 1), *bad]


def _state(world: World, page: int) -> Json:
    """A state of more than 16 KiB, which lies in blobs; it is another for each thing that goes wrong."""
    return {"page": page, "fault": world.fault, "seen": {f"id-{i:08}": page for i in range(1500)}}
