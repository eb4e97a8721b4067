"""What a large state costs: `python benchmarks/state/logs.py [--entries 1000000]`.

A set of entity ids and a map from partition to cursor, in a local store: the first run, a run that changes nothing,
one that changes another slot, runs that change one in a hundred, and opening it again. Bytes are those of the files.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cdk.base.values import Json
from cdk.state import Kind, StateKey, StateLog, open_session
from cdk.state.stores.local import LocalStore

KEY = StateKey("bench")
SLOT = Kind("bench/large")
CHANGED = 100
"""One entry in so many changes in a run."""

FURTHER = 20
"""Runs that are measured together: by then the patches have been folded into a new whole."""


def entities(count: int) -> dict[str, Json]:
    """Ids as data catalogs have them, scattered as hashes are."""
    return {f"urn:li:dataset:(hive,db{i % 97}.table_{i * 7_919 % 1_000_003:07x},PROD)": 1 for i in range(count)}


def partitions(count: int) -> dict[str, Json]:
    """A cursor for each partition."""
    return {f'{{"customer":{i}}}': {"updated_at": f"2024-01-{i % 28 + 1:02}T00:00:00Z"} for i in range(count)}


def change_entities(value: dict[str, Json], run: int) -> None:
    """Some go, as many come."""
    for key in list(value)[run :: 2 * CHANGED]:
        del value[key]
        value[f"{key}:{run}"] = 1


def change_partitions(value: dict[str, Json], run: int) -> None:
    """Some cursors move on."""
    for key in list(value)[run::CHANGED]:
        value[key] = {"updated_at": f"2024-02-{run:02}T12:00:00Z"}


def measure(what: str, folder: Path, action: Callable[[], None]) -> None:
    """Run and print: seconds, bytes that are new in the folder, peak memory of the process so far."""
    before = {path for path in folder.rglob("*") if path.is_file()}
    cpu, clock = time.process_time(), time.perf_counter()
    action()
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    new = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path not in before)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{what:48} {cpu:8.2f} s CPU {clock:8.2f} s {new:14,} bytes {peak:8,} MB")


def bench(name: str, value: dict[str, Json], change: Callable[[dict[str, Json], int], None]) -> None:
    """The runs of one slot."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        log = StateLog(LocalStore(folder), KEY, max_checkpoint_state_size=2**28)
        slot = f"entities:{name}"

        def run(number: int, *, changes: bool, other: int = 0) -> Callable[[], None]:
            def act() -> None:
                if changes:
                    change(value, number)
                with open_session(log) as session:
                    session.propose(slot, SLOT.of(value))
                    if other:
                        session.propose("stream:users", SLOT.of({"page": other}))
                    session.commit("final")

            return act

        def further() -> None:
            for number in range(4, 4 + FURTHER):
                run(number, changes=True)()

        def opened() -> None:
            with open_session(log) as session:
                session.read(slot, SLOT)

        measure(f"{name}: first run", folder, run(0, changes=False))
        measure(f"{name}: nothing changes", folder, run(0, changes=False))
        measure(f"{name}: another slot changes", folder, run(0, changes=False, other=1))
        for number in range(1, 4):
            measure(f"{name}: 1 % changes", folder, run(number, changes=True))
        measure(f"{name}: another slot changes", folder, run(0, changes=False, other=2))
        measure(f"{name}: {FURTHER} runs that change 1 %", folder, further)
        measure(f"{name}: opened and read", folder, opened)


def main() -> None:
    """Both slots, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    count = parser.parse_args().entries
    print(f"{count:,} entries; the session loads, checks and compares the whole value each time")
    bench("ids", entities(count), change_entities)
    bench("partitions", partitions(count), change_partitions)


if __name__ == "__main__":
    main()
