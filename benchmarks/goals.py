"""What the project holds itself to, beside what was measured: `python benchmarks/goals.py FILE.jsonl`.

The file has a line for each program in each round, as `bench.py run --results` and `spark/run.py --results` write them.
A ratio is taken inside each round, and of all rounds the median counts.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

_BOTH = ("manifest", "python")


@dataclass(frozen=True)
class Goal:
    """At most `must` of a figure (at least, for what others take), of each of some programs.

    against: the program whose figure of the same round it is divided by; else by `per`.
    """

    case: str
    must: float
    programs: Sequence[str] = _BOTH
    figure: str = "cpu"
    against: str = ""
    per: float = 1.0
    at_least: bool = False

    @property
    def unit(self) -> str:
        """What the numbers are."""
        divided = f" / {self.against}" if self.against else f" / {self.per:g}" if self.per != 1 else ""
        return f"{self.figure}{divided or ', s'}"

    def now(self, rounds: Mapping[tuple[str, str], Sequence[Mapping[str, float]]], program: str) -> float | None:
        """What was measured of a program; None: it, or what it is held against, did not run."""
        own = [one[self.figure] for one in rounds.get((self.case, program), ())]
        base = [one[self.figure] for one in rounds.get((self.case, self.against), ())] or [self.per] * len(own)
        if not own or (self.against and (self.case, self.against) not in rounds):
            return None
        return median(one / other for one, other in zip(own, base, strict=False))


READ = (
    Goal("a200k", 0.6, against="limit-orjson"),
    Goal("a", 0.4, against="limit-orjson"),
    Goal("a200k", 1.6, against="limit-splice"),
    Goal("a", 1.6, against="limit-splice"),
    Goal("b", 0.9, ("manifest",), against="limit-orjson"),
    Goal("b", 0.7, ("python",), against="limit-orjson"),
    Goal("c", 0.8, against="limit-orjson"),
    Goal("cfull", 0.7, against="limit-orjson"),
    Goal("i", 1.25, ("manifest",), against="limit-orjson"),
    Goal("d50k", 0.0002, per=50_000),
    # The Python connector's pages have tokens that only the page before names.
    Goal("epages", 1.5, ("manifest",), "wall"),
    Goal("f-spec", 0.12, against="airbyte"),
    Goal("f-check", 0.15, against="airbyte"),
    Goal("f-discover", 0.15, against="airbyte"),
)
_SYNC = ("sync", "sync, manifest")
SYNC = (
    Goal("rows200k", 1.15, _SYNC, "worker", "parquet3"),
    Goal("nothing", 1.5, ("sync",)),
    Goal("nothing", 2.0, ("sync",), "wall"),
    Goal("rows200k", 3.0, _SYNC),
    Goal("rows200k", 4.0, ("dlt into Delta",), against="sync", at_least=True),
)


def main() -> None:
    """Print the table of what was measured."""
    rounds: defaultdict[tuple[str, str], list[Mapping[str, float]]] = defaultdict(list)
    for line in Path(sys.argv[1]).read_text().splitlines():
        one = json.loads(line)
        rounds[one["case"], one["runner"]].append(one)
    goals = SYNC if any(case in {goal.case for goal in SYNC} for case, _ in rounds) else READ
    print("\n| case | figure | program | now | must | |\n|---|---|---|---|---|---|")
    for goal in goals:
        for program in goal.programs:
            now, sign = goal.now(rounds, program), "≥" if goal.at_least else "≤"
            met = "" if now is None else "yes" if (now >= goal.must if goal.at_least else now <= goal.must) else "no"
            cells = ("not measured" if now is None else f"{now:.3g}", f"{sign} {goal.must:g}", met)
            print(f"| {goal.case} | {goal.unit} | {program} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
