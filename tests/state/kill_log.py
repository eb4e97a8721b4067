"""Kills writers of one log at random moments: `python -m tests.state.kill_log --help`.

`--store local`, `sqlite`, `postgres` or `mariadb` makes a store of that kind and removes it afterwards;
anything else is the URL of an empty one.
`python -m tests.state.kill_log --store postgres --writers 4 --kills 120 --steps 300`

Some processes race to move one counter on, a step a commit, without a lease: who loses opens the log again. Each is
killed with SIGKILL at a random moment and started again, until enough were killed and enough steps are done. Then
  - the log has every number once, each record built on the one before,
  - every record moves the counter by one, so no step is lost and none comes twice,
  - every record that a writer was told is its own, is,
  - a large value beside it, which changes by an entry a step, is whole in every record.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cdk.base.errors import StateConflict
from cdk.base.times.clock import sleep
from cdk.state import Kind, Mode, Retention, StateKey, StateLog, open_store
from cdk.state.log.session import StateSession
from tests.state.stores.servers import mariadb, postgres

KEY = StateKey("kill", "test")
COUNTER = Kind("test/counter")
LARGE = {f"urn:entity:{i:06}": 1 for i in range(1500)}
KEPT = Retention(records=10**9)


@dataclass(frozen=True)
class Outcome:
    """What a campaign did: kills that met a living writer, records in the log, acknowledged commits."""

    kills: int
    records: int
    acknowledged: int


def campaign(url: str, *, kills: int, steps: int, writers: int, seed: int, folder: Path) -> Outcome:
    """Kill `kills` writers and have at least `steps` steps done; check the log. Raises AssertionError."""
    chance = random.Random(seed)
    open_store(url).close()
    paths = [folder / f"writer-{i}" for i in range(writers)]
    running = [_started(url, path) for path in paths]
    killed = 0
    try:
        while killed < kills:
            sleep(chance.uniform(0.0, 0.25))
            victim = chance.randrange(writers)
            if _has_begun(paths[victim]):
                running[victim].kill()
                running[victim].wait()
                killed += 1
                paths[victim] = folder / f"writer-{writers + killed}"
                running[victim] = _started(url, paths[victim])
        for _ in range(600):
            if len(_acknowledged(folder)) >= steps:
                break
            sleep(0.1)
    finally:
        for process in running:
            process.kill()
            process.wait()
    return _checked(url, killed, _acknowledged(folder))


@contextmanager
def store_of(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a new store of this kind in `folder`; of a server of its own, if it is to be one.

    What is none of these kinds is a URL already.
    """
    match kind:
        case "local":
            yield f"{folder}/state"
        case "sqlite":
            yield f"sqlite:///{folder}/state.db"
        case "postgres":
            with postgres(folder) as url:
                yield url
        case "mariadb":
            with mariadb(folder) as url:
                yield url
        case _:
            yield kind


def _started(url: str, path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.state.kill_log", "--writer", url, "--acknowledged", str(path)]
    )


def _has_begun(path: Path) -> bool:
    """Whether a writer is at work: killing it while it starts would prove nothing."""
    return path.exists()


def _acknowledged(folder: Path) -> dict[int, str]:
    """The records that writers were told are theirs: number -> attempt."""
    told: dict[int, str] = {}
    for path in folder.glob("writer-*"):
        for line in path.read_text().splitlines():
            with suppress(ValueError):  # a killed writer may have left half a line
                seq, attempt, _ = line.split(" ")
                assert int(seq) not in told, f"record {seq} was given to two writers"
                told[int(seq)] = attempt
    return told


def _checked(url: str, kills: int, told: dict[int, str]) -> Outcome:
    store = open_store(url, writes=False)
    log = StateLog(store, KEY)
    records = list(reversed(list(log.history())))
    assert [record.seq for record in records] == list(range(1, len(records) + 1)), "the log has holes"
    assert list(store.numbers(KEY)) == [record.seq for record in records], "the log has numbers that nobody reads"
    for record in records:
        assert log.value(record, "stream:counter").value == record.seq, f"record {record.seq}: a step lost or repeated"
        assert len(log.value(record, "entities:large").value) == len(LARGE) + record.seq, f"record {record.seq}"
    attempts = {record.seq: record.attempt for record in records}
    assert told.items() <= attempts.items(), "a commit that was acknowledged is not in the log"
    store.close()
    return Outcome(kills, len(records), len(told))


def write(url: str, path: Path) -> None:
    """Move the counter on until killed, and note each acknowledged commit."""
    log = StateLog(open_store(url, writes=False), KEY)
    with path.open("a", buffering=1) as noted:
        while True:
            # Without a lease, on purpose: it is the store that must keep writers apart.
            session = StateSession(log, Mode(), {"pid": os.getpid()}, KEPT)
            with suppress(StateConflict):
                while True:
                    before = session.head.seq if session.head else 0
                    ids = {f"step-{n}": n for n in range(1, before + 2)}
                    session.propose("stream:counter", COUNTER.of(before + 1))
                    session.propose("entities:large", COUNTER.of(LARGE | ids))
                    record = session.commit("partial")
                    assert record is not None
                    noted.write(f"{record.seq} {record.attempt} .\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign, or be one of its writers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=30, help="how many writers to kill")
    parser.add_argument("--steps", type=int, default=300, help="acknowledged commits there must be at least")
    parser.add_argument("--writers", type=int, default=3, help="processes that race")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument(
        "--store", default="local", help="local, sqlite, postgres, mariadb, or the URL of an empty store"
    )
    parser.add_argument("--writer", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--acknowledged", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.writer:
        write(given.writer, given.acknowledged)
    with tempfile.TemporaryDirectory() as folder, store_of(given.store, Path(folder)) as url:
        print(f"seed {given.seed}, store {url.partition(':')[0] if ':' in url else 'local'}", flush=True)
        outcome = campaign(
            url, kills=given.kills, steps=given.steps, writers=given.writers, seed=given.seed, folder=Path(folder)
        )
    print(
        f"{outcome.kills} kills, {outcome.records} records, {outcome.acknowledged} acknowledged: "
        "no hole, no step lost, none twice"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
