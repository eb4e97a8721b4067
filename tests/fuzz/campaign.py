"""Hostile input in random: every command must end with a message or a typed error, soon, and without a secret.

`python -m tests.fuzz.campaign --seconds 120` prints the seeds that did not; `--seed N` repeats one.
"""

import argparse
import json
import math
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import count
from pathlib import Path
from types import FrameType
from typing import NoReturn

from cdk.base.errors import BugError, CdkError
from cdk.base.values import Json
from cdk.cli.app import run
from cdk.declarative.manifest import Manifest
from cdk.declarative.model.context import Runtime
from cdk.declarative.source import ManifestSource
from tests.fuzz.answers import HostileApi
from tests.fuzz.manifests import CONFIG, MANIFESTS, SECRET, SPEC
from tests.fuzz.mutate import mutated

SECONDS = 10
"""What one case may take."""

_SLEEPS = 2000
_RAISED = re.compile(r"^([A-Za-z_*][\w.*]*)(?::|$)", re.MULTILINE)
_LEAKING = {"LOG", "TRACE", "CONNECTION_STATUS"}

_AT = "2024-01-02T00:00:00Z"
_CURSOR: dict[str, Json] = {"updated_at": _AT}
STATES: list[Json] = [
    {},
    _CURSOR,
    {"id": 5},
    {"next_page_token": 3},
    {"__ab_full_refresh_sync_complete": True},
    {"__ab_no_cursor_state_message": True},
    {"state_type": "date-range", "slices": [{"start": "2024-01-01T00:00:00.000Z", "end": _AT}], "legacy": _CURSOR},
    {
        "use_global_cursor": False,
        "lookback_window": 1,
        "state": _CURSOR,
        "states": [{"partition": {"user": 7, "parent_slice": {}}, "cursor": _CURSOR}],
        "parent_state": {"users": _CURSOR},
    },
    {"states": [{"partition": {"region": "eu", "kind": "a"}, "cursor": _CURSOR}]},
]


class Hang(BaseException):
    """A case did not end in time."""


class Failure(AssertionError):
    """A case broke the promise."""


class Hours:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self._now, self._slept = datetime(2024, 1, 10, tzinfo=UTC), 0

    def clock(self) -> datetime:
        return self._now

    def sleep(self, seconds: float) -> None:
        # As time.sleep does.
        if math.isnan(seconds) or seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if seconds > 2**33:
            raise OverflowError("timestamp too large to convert to C _PyTime_t")
        self._slept += 1
        if self._slept > _SLEEPS:
            raise Hang
        self._now += timedelta(seconds=min(seconds, 86_400))


def case(seed: int, folder: Path) -> str:
    """Run the case of a seed and give a line that says what came of it. Raises Failure."""
    chance = random.Random(seed)
    name = chance.choice(list(MANIFESTS))
    value: Json = deepcopy(MANIFESTS[name])
    config: Json = deepcopy(CONFIG)
    state: Json = None
    command = chance.choice(["read", "read", "read", "check", "discover", "spec"])
    broken = chance.choice(["manifest", "manifest", "manifest", "config", "state", "answers", "all"])
    if broken in {"manifest", "all"}:
        value = mutated(value, chance)
    if broken in {"config", "all"}:
        config = mutated(config, chance)
    if broken in {"state", "all"}:
        state = _state(value, chance)
    api = HostileApi(chance, 0.5 if broken in {"answers", "all"} else 0.02)
    hours = Hours()
    argv = [command]
    try:
        if command != "spec":
            argv += ["--config", _written(folder / "config.json", config)]
        if command == "read" and state is not None:
            argv += ["--state", _written(folder / "state.json", state)]
    except RecursionError:
        return "too deep to be written"
    try:
        runtime = Runtime(transport=api, clock=hours.clock, sleep=hours.sleep, folder=folder)
        source = ManifestSource(Manifest(value), runtime)
    except CdkError as error:
        return _typed(type(error), f"{name}: {error}")
    code, lines, told = _captured(argv, source, folder)
    _look(code, lines, told, secret=_is_known(value, config))
    return f"{code}"


def _state(value: Json, chance: random.Random) -> Json:
    streams = value.get("streams") if isinstance(value, dict) else None
    streams = streams if isinstance(streams, list) else []
    names = [s["name"] for s in streams if isinstance(s, dict) and isinstance(s.get("name"), str)] or ["users"]
    message = {
        "type": "STREAM",
        "stream": {"stream_descriptor": {"name": names[-1]}, "stream_state": mutated(chance.choice(STATES), chance)},
    }
    return [mutated(message, chance)] if chance.random() < 0.3 else [message]


def _written(path: Path, value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return str(path)


def _captured(argv: list[str], source: ManifestSource, folder: Path) -> tuple[int, list[str], str]:
    """Run the command line with its output in files. Gives exit code, lines of output, and what stderr said."""
    out, err = folder / "out", folder / "err"
    ours = os.dup(1), os.dup(2)
    sys.stdout.flush()
    sys.stderr.flush()
    with out.open("wb") as first, err.open("wb") as second:
        os.dup2(first.fileno(), 1)
        os.dup2(second.fileno(), 2)
        try:
            code = run(argv, source)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, descriptor in zip((1, 2), ours, strict=True):
                os.dup2(descriptor, number)
                os.close(descriptor)
    return code, out.read_text("utf-8", "replace").splitlines(), err.read_text("utf-8", "replace")


def _look(code: int, lines: list[str], told: str, *, secret: bool) -> None:
    messages = [json.loads(line, parse_int=str) for line in lines]
    errors = [m["trace"]["error"] for m in messages if m["type"] == "TRACE" and m["trace"]["type"] == "ERROR"]
    for error in errors:
        # The class of the error stands behind the last frame.
        tail = error["stack_trace"].rpartition("\n  File ")[2]
        raised = _RAISED.search(tail[tail.find("\n") :])
        _typed(_class(raised[1] if raised else ""), error["stack_trace"])
    if "Traceback" in told:
        raise Failure(f"a traceback on stderr: {told}")
    if code not in {0, 1} or (code == 1 and not errors) or (code == 0 and errors):
        raise Failure(f"exit code {code} with {len(errors)} errors: {told}")
    for message, line in zip(messages, lines, strict=True):
        if secret and message["type"] in _LEAKING and SECRET in line:
            raise Failure(f"a secret is said: {line[:600]}")
    if secret and SECRET in told:
        raise Failure(f"a secret is said on stderr: {told[:600]}")


def _class(name: str) -> type[BaseException]:
    if "*" in name:
        # A config whose secret is a short word hides it here, too.
        return CdkError
    module, _, name = name.rpartition(".")
    try:
        found = getattr(import_module(module or "builtins"), name)
    except (ImportError, AttributeError):
        return Exception
    return found if isinstance(found, type) else Exception


def _typed(kind: type[BaseException], words: str) -> str:
    if not issubclass(kind, CdkError) or issubclass(kind, BugError):
        raise Failure(f"no typed error: {words}")
    return kind.__name__


def _is_known(value: Json, config: Json) -> bool:
    """Whether the spec still says that the secret is one, and the config still holds it there and nowhere else."""
    said = isinstance(value, dict) and isinstance(value.get("spec"), dict)
    schema = value["spec"].get("connection_specification") if said else None
    held = isinstance(config, dict) and config.get("api_key") == SECRET
    with suppress(RecursionError):
        return held and json.dumps(config).count(SECRET) == 1 and schema == SPEC["connection_specification"]
    return False


def _hang(_: int, frame: FrameType | None) -> NoReturn:
    raise Hang("".join(traceback.format_stack(frame)[-6:]))


def attempt(seed: int, folder: Path) -> tuple[str, str]:
    """Run a case. Gives a short name of what came of it, and what broke."""
    signal.signal(signal.SIGALRM, _hang)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return case(seed, folder), ""
    except Failure as failure:
        frames = re.findall(r'File "[^"]*/(cdk/[^"]*)", line (\d+)', str(failure)) or [("", "")]
        last = str(failure).strip().splitlines()[-1]
        return f"{frames[-1][0]}:{frames[-1][1]} {last[:80]}", str(failure)
    except Hang as hang:
        frames = re.findall(r'File "[^"]*/(cdk/[^"]*)", line (\d+)', str(hang)) or [("", "")]
        return f"HANG {frames[-1][0]}", str(hang)
    except Exception as error:  # noqa: BLE001 - what escapes is what is looked for
        text = traceback.format_exc()
        frames = re.findall(r'File "[^"]*/(cdk/[^"]*)", line (\d+)', text) or [("", "")]
        return f"{frames[-1][0]}:{frames[-1][1]} escaped {type(error).__name__}", text
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def main() -> int:
    """Run cases until the time or the number is up. Gives 1 when one broke."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--memory", type=int, default=3000, help="MiB that the process may take")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (given.memory * 2**20,) * 2)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # a TextIOWrapper
    broken: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    until = time.monotonic() + given.seconds
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        seeds = count(given.first) if given.seed is None else [given.seed]
        for done, seed in enumerate(seeds):
            if time.monotonic() > until or (given.cases and done >= given.cases):
                break
            # A crash of the interpreter leaves this folder, and the seed in it, behind.
            (folder / "seed").write_text(str(seed))
            came, why = attempt(seed, folder)
            seen["broken" if why else came] += 1
            if why:
                broken[came] += 1
                if broken[came] == 1:
                    print(f"--- seed {seed}: {came}\n{why[-3000:]}", flush=True)
    print(f"{sum(seen.values())} cases: {dict(seen)}")
    for came, times in broken.most_common():
        print(f"{times:6} x {came}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
