"""Runs property tests again and again, each time with other examples: `make properties`.

One run of the tests takes few examples of each property, so that it ends soon; a campaign takes them for as long as it
is told, and prints the seed of what it finds. `pytest FILE --hypothesis-seed=SEED` repeats it.
"""

import argparse
import re
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORLDS = ("tests/worlds",)


def run(files: list[str], seed: int) -> str:
    """Run the properties of some files with the examples of a seed; what failed, empty where nothing did."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not spark", "--timeout=3600", f"--hypothesis-seed={seed}"]
    command = [sys.executable, "-m", "pytest", *options, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stdout.splitlines() if re.match(r"E |FAILED|ERROR +tests", line)]
    return "\n".join(lines) or done.stdout[-3000:]


def main() -> int:
    """Run until the time is over or something was found; 1 where something was."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", default=list(WORLDS))
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--first", type=int, default=int(time.time()))
    options = parser.parse_args()
    end, runs = time.monotonic() + options.seconds, 0
    for seed in count(options.first):
        if failed := run(options.files, seed):
            print(f"seed {seed}:\n{failed}")
            return 1
        runs += 1
        if time.monotonic() >= end:
            break
    print(f"{runs} runs, seeds {options.first} to {options.first + runs - 1}: nothing failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
