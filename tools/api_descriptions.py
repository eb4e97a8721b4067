"""Draft connectors from API descriptions, and read each stream from a simulation of its API.

`python -m tools.api_descriptions FOLDER` prints, for each OpenAPI description in the folder, how many streams were
drafted and read, why the others were not, and what was guessed and left out. With `--known FOLDER` it also prints what
differs from the manifests there that are called as the descriptions are. It sends nothing.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from cdk import sources
from cdk.authoring.drafts.draft import Guess
from cdk.authoring.drafts.openapi.description import read_description
from cdk.authoring.drafts.openapi.from_description import draft_of
from cdk.authoring.new_connector import new_connector
from cdk.base.errors import CdkError
from cdk.base.secret_masking import Secrets
from cdk.sources.config import prepared_config
from cdk.testing import Simulator, World, read
from tools.known_manifests import Comparison, compare, rates
from tools.known_manifests import lines as differences

_NAME = re.compile(r" ?`[^`]*`")
_SHOWN = 5
"""Streams of a reason that are named."""


@dataclass
class Outcome:
    """What came of a description. failed, guesses, left_out: the streams or paths of each reason."""

    name: str
    streams: int = 0
    read: int = 0
    records: int = 0
    error: str = ""
    failed: dict[str, list[str]] = field(default_factory=dict)
    guesses: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    comparison: Comparison = field(default_factory=Comparison)


def outcome_of(description: Path, records: int = 10, known: Path | None = None) -> Outcome:
    """Draft a connector as `new --from-openapi` does, and read it as `read --simulate` does, stream by stream.

    records: how many each stream of the simulated API has. known: a manifest to compare the draft with.
    """
    outcome = Outcome(description.name)
    with TemporaryDirectory() as folder:
        try:
            draft = draft_of(read_description(str(description)))
            outcome.streams = len(draft.streams)
            outcome.guesses.update(_kind(guess) for stream in draft.streams for guess in stream.guesses)
            outcome.left_out.update(each.reason for each in draft.left_out)
            new_connector("drafted-here", "yaml", Path(folder) / "drafted", draft)
            if known is not None:
                outcome.comparison = compare(Path(folder) / "drafted" / "manifest.yaml", draft.left_out, known)
            source = sources.manifest_source(Path(folder) / "drafted" / "manifest.yaml")
            simulator = Simulator(source, None, World(records=records))
        except CdkError as error:
            outcome.error = str(error)
            return outcome
        with simulator.playing():
            config = prepared_config(simulator.config, source, "config", Secrets())
            # Once: with every read, the hundreds of streams of a large description would be made anew.
            streams = {stream.name: stream for stream in source.open(config)}
            for stream in draft.streams:
                if (why := simulator.missing.get(stream.name)) is not None:
                    outcome.failed.setdefault(f"not simulated: {why}", []).append(stream.name)
                    continue
                result = read(streams[stream.name])
                count, mismatches = len(result.records), result.schema_errors
                outcome.records += count
                if result.error is not None or mismatches or not count:
                    reason = str(
                        result.error or (f"does not fit its schema: {mismatches[0]}" if mismatches else "no records")
                    )
                    outcome.failed.setdefault(reason.splitlines()[0], []).append(stream.name)
                else:
                    outcome.read += 1
    return outcome


def _kind(guess: Guess) -> str:
    """The kind of a guess, without the names in it; of what was not found also why, for that may be wrong."""
    kind = _NAME.split(guess.what)[0].split(":")[0].strip(" ,")
    return f"{kind} ({_NAME.sub('', guess.why)})" if kind.startswith("no ") else kind


def lines(outcome: Outcome) -> Iterator[str]:
    """What is printed of an outcome."""
    yield f"{outcome.name}: {outcome.read} of {outcome.streams} streams read, {outcome.records:,} records"
    if outcome.error:
        yield f"  no connector: {outcome.error}"
    for reason, streams in sorted(outcome.failed.items(), key=lambda each: -len(each[1])):
        more = f" and {len(streams) - _SHOWN} more" if len(streams) > _SHOWN else ""
        yield f"  {len(streams)} x {reason} ({', '.join(streams[:_SHOWN])}{more})"
    yield from differences(outcome.comparison)
    for title, counted in (("guessed", outcome.guesses), ("left out", outcome.left_out)):
        yield from _counted(title, counted)


def _counted(title: str, counted: Mapping[str, int]) -> Iterator[str]:
    for what, number in sorted(counted.items(), key=lambda each: -each[1]):
        yield f"  {title}: {number} x {what}"


def main(argv: Sequence[str]) -> int:
    """Print what came of each description; 1 where a stream was not read."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.api_descriptions", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("folder", type=Path, help="where the descriptions lie, as JSON or YAML")
    parser.add_argument("--records", type=int, default=10, help="how many each stream of an API has; default: 10")
    parser.add_argument("--known", type=Path, help="where manifests of these APIs lie that are known to be right")
    options = parser.parse_args(argv)
    outcomes = []
    for path in sorted(path for path in options.folder.iterdir() if path.suffix in {".json", ".yaml", ".yml"}):
        known = (options.known or options.folder) / f"{path.stem}.yaml"
        is_known = options.known is not None and known.is_file()
        outcomes.append(outcome_of(path, options.records, known if is_known else None))
        print(*lines(outcomes[-1]), sep="\n", flush=True)
    read_, streams = sum(each.read for each in outcomes), sum(each.streams for each in outcomes)
    for line in rates(each.comparison for each in outcomes):
        print(line)
    print(f"{len(outcomes)} descriptions: {read_} of {streams} streams read")
    return 0 if outcomes and read_ == streams and not any(each.error for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
