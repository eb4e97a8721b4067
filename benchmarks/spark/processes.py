"""What a process and all its children take, by kind: CPU and peak memory, as /proc tells them (Linux).

A process that ends between two looks loses what it did since the last one: a thirtieth of a second of CPU at most.
"""

import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path

KINDS = ("driver", "jvm", "worker")
"""The command itself and what else it starts; Java; Spark's Python daemon and the workers that it forks."""

_LOOK = 0.03
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds, user and system, and the peak of memory in MB of the largest process, by kind. wall: seconds."""

    wall: float = 0.0
    cpu: Mapping[str, float] = field(default_factory=dict)
    peak: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """CPU seconds of all kinds."""
        return sum(self.cpu.values())

    def since(self, before: "Usage") -> "Usage":
        """What was used after `before`; the peaks stay what they are."""
        cpu = {kind: used - before.cpu.get(kind, 0.0) for kind, used in self.cpu.items()}
        return Usage(self.wall - before.wall, cpu, self.peak)


@dataclass(frozen=True, slots=True)
class _Process:
    """One look at a process. cpu: seconds of its own. peak: MB."""

    parent: int
    kind: str
    cpu: float
    peak: float


def run(command: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None) -> Usage:
    """Run a command to its end and tell what it and its children took. log: gets all they say.

    Raises RuntimeError: it failed; the message has the end of the log.
    """
    seen: dict[int, _Process] = {}
    begun = time.perf_counter()
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, env=env
        )
        while True:
            looked = _looked()
            for pid in _family(looked, {process.pid, *seen}) & looked.keys():
                one = looked[pid]
                # One that has ended, and is not yet waited for, has no memory any more.
                before = seen.get(pid, one)
                seen[pid] = one if one.peak else replace(one, kind=before.kind, peak=before.peak)
            try:
                process.wait(_LOOK)
                break
            except subprocess.TimeoutExpired:
                continue
    wall = time.perf_counter() - begun
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise RuntimeError(f"{command[0]} ended with {process.returncode}; {log} ends with:\n{tail}")
    return _summed(seen.values(), wall)


def mine() -> Usage:
    """What this process and the children that it has now took so far. wall: a clock that only differences mean."""
    seen = _looked()
    return _summed([seen[pid] for pid in _family(seen, {os.getpid()})], time.perf_counter())


def forget_peaks() -> None:
    """Let the peaks of this process and of its present children begin anew."""
    for pid in _family(_looked(), {os.getpid()}):
        try:
            Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
        except OSError:  # another user's, or gone
            continue


def _summed(processes: Iterable[_Process], wall: float) -> Usage:
    cpu = dict.fromkeys(KINDS, 0.0)
    peak = dict.fromkeys(KINDS, 0.0)
    for one in processes:
        cpu[one.kind] += one.cpu
        peak[one.kind] = max(peak[one.kind], one.peak)
    return Usage(wall, cpu, peak)


def _family(seen: Mapping[int, _Process], first: AbstractSet[int]) -> set[int]:
    """The processes of `first`, and all that descend from them: the JVM has a session of its own."""
    family = set(first)
    while more := {pid for pid, one in seen.items() if one.parent in family} - family:
        family |= more
    return family


def _looked() -> dict[int, _Process]:
    """All processes of this machine that may be looked at."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and (one := _process(folder)) is not None:
            found[int(folder.name)] = one
    return found


def _process(folder: Path) -> _Process | None:
    """A process, None when it is gone. The fields of `stat`: proc(5), from the third on."""
    try:
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        command = (folder / "cmdline").read_bytes()
        status = (folder / "status").read_text(errors="replace")
    except OSError:
        return None
    peak = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
    cpu = (int(fields[11]) + int(fields[12])) / _TICKS
    return _Process(int(fields[1]), _kind(command), cpu, peak / 1024)


def _kind(command: bytes) -> str:
    if command.partition(b"\0")[0].endswith(b"java"):
        return "jvm"
    return "worker" if b"pyspark.daemon" in command or b"warm_daemon" in command else "driver"
