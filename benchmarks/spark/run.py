"""What `sync` costs on Spark: `python benchmarks/spark/run.py [--rounds N] [--cases rows200k,busy] [--bench FOLDER]`.

Programs take turns in each round, so that a drift of the machine hits all of them. The table has medians; ratios are
taken inside each round first. CPU is that of a program and all it starts; seconds on the clock are noise on a machine
that others use.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

from api import environment, serving
from cases import CASES, DLT, LIMITS, Bench, Measured
from processes import KINDS

_MICRO = 1e6
_TIMES = ("records/s", "wall s", "its start", "driver s", "JVM s", "worker s", "us/record", "less start")
_HEAD = ("program", *_TIMES, "peak MB", "x")


def main() -> None:
    """Run the cases and print a table of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default="rows200k,rows1m,nothing,busy,latency", help=f"of {', '.join(CASES)}")
    parser.add_argument("--bench", type=Path, default=Path("../shared/bench"), help="the folder with bench.py")
    parser.add_argument("--limits", type=Path, default=Path(".venv/bench"), help="the limits' virtual environment")
    parser.add_argument("--dlt", type=Path, default=Path(".venv/dlt"), help="dlt's; both are made when absent")
    parser.add_argument("--only", default="", help="programs of the rows' cases: parquet3,sync,dlt,... (default: all)")
    parser.add_argument("--results", type=Path, help="a file that gets a line for each program in each round")
    given = parser.parse_args()
    chosen = {name: CASES[name] for name in given.cases.split(",")}
    only = frozenset(filter(None, given.only.split(",")))
    limits = environment(given.limits, *LIMITS)
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        scratch = Path(folder)
        with serving(given.bench, limits, scratch) as address:
            bench = Bench(given.bench.resolve(), limits, environment(given.dlt, DLT), address, scratch, only)
            for name, case in chosen.items():
                rounds = []
                for number in range(given.rounds):
                    rounds.append(list(case(bench)))
                    if given.results:
                        with given.results.open("a") as file:
                            file.writelines(_line(name, measured) for measured in rounds[-1])
                    print(f"{name}: round {number + 1} of {given.rounds} is done", flush=True)
                print_table(name, rounds)


def _line(case: str, measured: Measured) -> str:
    """A program in a round. cpu: of the whole tree; worker: microseconds a record, less start."""
    usage = measured.usage
    figures = {"cpu": usage.total, "wall": usage.wall, "worker": less_start(measured)}
    return f"{json.dumps({'case': case, 'runner': measured.program, **figures})}\n"


def print_table(name: str, rounds: Sequence[Sequence[Measured]]) -> None:
    """Medians of each program, as a table of Markdown.

    us/record: CPU of all processes. less start: without what the program takes for nothing to do; in brackets that of
    the largest part, the worker. x: the CPU of a record, less start, of the worker where there is one, against the
    first program of the same round.
    """
    print(f"\n### {name}, {len(rounds)} rounds\n")
    print(f"| {' | '.join(_HEAD)} |\n|{'---|' * len(_HEAD)}")
    for place, program in enumerate(rounds[0]):
        one = [measured[place] for measured in rounds]
        print(f"| {program.program} | {' | '.join(_cells(one, [measured[0] for measured in rounds]))} |")
    print(flush=True)


def _cells(one: Sequence[Measured], base: Sequence[Measured]) -> Iterator[str]:
    def middle(of: Callable[[Measured], float]) -> float:
        return median(of(measured) for measured in one)

    yield f"{middle(lambda m: m.records / (m.usage.wall - m.start.wall)):,.0f}"
    yield f"{middle(lambda m: m.usage.wall):.2f}"
    yield f"{middle(lambda m: m.start.wall):.2f}"
    for kind in KINDS:
        yield f"{median(m.usage.cpu[kind] for m in one):.2f}"
    yield f"{middle(lambda m: m.usage.total / m.records * _MICRO):.2f}"
    yield f"{middle(less_start):.2f}"
    yield f"{middle(lambda m: max(m.usage.peak['driver'], m.usage.peak['worker'])):.0f}"
    yield f"{median(less_start(m) / less_start(b) for m, b in zip(one, base, strict=True)):.2f}"


def less_start(measured: Measured) -> float:
    """Microseconds of CPU a record, without the start, of the worker where there is one."""
    used = measured.usage.cpu["worker"] or measured.usage.cpu["driver"]
    start = measured.start.cpu.get("worker") or measured.start.cpu.get("driver") or 0.0
    return (used - start) / measured.records * _MICRO


if __name__ == "__main__":
    main()
