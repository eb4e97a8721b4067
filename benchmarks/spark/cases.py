"""The cases: which programs take turns in a round, on what, and what each is held against."""

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from processes import Usage, run

from cdk.base.values import Json

HERE = Path(__file__).resolve().parent
CONNECTOR = HERE.parent / "bench_source.py"
DLT = "dlt[duckdb,parquet,deltalake]==1.31"
LIMITS = ("requests", "orjson", "msgspec", "pyarrow", "uvloop", "urllib3")


@dataclass(frozen=True)
class Bench:
    """What all cases need. folder: the bench. limits, dlt: their Pythons. address: the API. scratch: for files.

    only: the programs that run; all when empty.
    """

    folder: Path
    limits: Path
    dlt: Path
    address: str
    scratch: Path
    only: frozenset[str] = frozenset()

    def runs(self, program: str) -> bool:
        """Whether a program was asked for."""
        return not self.only or program in self.only

    def fresh(self, name: str) -> Path:
        """An empty folder."""
        folder = self.scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


@dataclass(frozen=True)
class Measured:
    """One program in one round. start: what the same program takes for nothing to do, in the same round."""

    program: str
    records: int
    usage: Usage
    start: Usage = field(default_factory=Usage)


Case = Callable[[Bench], Iterator[Measured]]
"""One round. What comes first is what the others are held against."""


def rows(count: int, *, peers: bool = True) -> Case:
    """Reading `count` records over HTTP into Parquet files."""

    def case(bench: Bench) -> Iterator[Measured]:
        empty, full = f"{bench.address}/n=0", f"{bench.address}/n={count}"
        script = bench.folder / "limit" / "limit.py"

        def limit(mode: str, base: str) -> Sequence[str | Path]:
            out = bench.fresh("limit")
            if mode == "dictionaries":
                return [bench.limits, HERE / "dict_limit.py", base, out]
            return [bench.limits, script, mode, "--base-url", base, "--out", out / "0.parquet"]

        for name in filter(bench.runs, ("parquet3", "parquet", "dictionaries")):
            # pyarrow's reader takes no empty page: ten records stand for nothing to do.
            start = run(limit(name, f"{bench.address}/n=10"), log=bench.scratch / "start.log")
            yield Measured(name, count, run(limit(name, full), log=bench.scratch / f"{name}.log"), start)
        for name, source in _sources(bench).items():
            if not bench.runs(name):
                continue
            pipelines = [_pipeline(bench, name, source(base)) for base in (empty, full)]
            start, usage = (run(_sync(pipeline), log=bench.scratch / "sync.log") for pipeline in pipelines)
            yield Measured(name, count, usage, start)
        if peers and bench.runs("dlt"):
            yield Measured("dlt", count, run(_dlt(bench, full), log=bench.scratch / "dlt.log"))
        if peers and bench.runs("dlt into Delta"):
            command: Sequence[str | Path] = [bench.dlt, HERE / "dlt_delta.py", full, bench.fresh("dlt-delta")]
            yield Measured("dlt into Delta", count, run(command, log=bench.scratch / "dlt.log"))

    return case


def nothing(bench: Bench) -> Iterator[Measured]:
    """A sync of three streams that have nothing new: what a sync takes by itself."""
    base = f"{bench.address}/n=1,parents=0,children=0"
    source = _sources(bench)["sync"](base)
    pipeline = _pipeline(bench, "nothing", source, ["items_incremental", "children", "parents"])
    run(_sync(pipeline), log=bench.scratch / "start.log")
    yield Measured("sync", 1, run(_sync(pipeline), log=bench.scratch / "sync.log"))


def cores(connector: Path, stream: str, config: str, first: str, *, concurrency: int) -> Case:
    """The same sync on one core and on two in a session that runs. `ADDRESS` in a config becomes the API's."""

    def case(bench: Bench) -> Iterator[Measured]:
        for number in (1, 2):
            job = {
                "connector": str(connector),
                "stream": stream,
                "config": orjson.loads(config.replace("ADDRESS", bench.address)),
                "first": orjson.loads(first.replace("ADDRESS", bench.address)),
                "cores": number,
                "concurrency": concurrency,
                "target": str(bench.fresh("warm")),
            }
            yield _warm(bench, job, f"{number} core{'s'[: number - 1]}")

    return case


CASES: Mapping[str, Case] = {
    "rows200k": rows(200_000),
    "rows1m": rows(1_000_000),
    "rows5m": rows(5_000_000, peers=False),
    "nothing": nothing,
    "busy": cores(HERE / "sources.py", "busy", '{"parts": 40}', '{"parts": 2}', concurrency=4),
    "latency": cores(
        CONNECTOR,
        "children",
        '{"base_url": "ADDRESS/parents=2000,children=5,lat=50"}',
        '{"base_url": "ADDRESS/parents=2,children=5"}',
        concurrency=40,
    ),
}


def _sources(bench: Bench) -> Mapping[str, Callable[[str], Json]]:
    manifest = str(bench.folder / "peers" / "airbyte" / "manifest.yaml")
    return {
        "sync": lambda base: {"connector": str(CONNECTOR), "config": {"base_url": base}},
        "sync, manifest": lambda base: {"manifest": manifest, "config": {"base_url": f"{base}/"}},
    }


def _pipeline(bench: Bench, name: str, source: Json, streams: Sequence[str] = ("items",)) -> Path:
    """A pipeline file: JSON is YAML."""
    folder = bench.fresh(f"{name}-{len(list(bench.scratch.iterdir()))}".replace(", ", "-"))
    pipeline = {"name": "bench", "source": source, "target": {"path": str(folder / "tables")}, "streams": streams}
    path = folder / "pipeline.yaml"
    path.write_bytes(orjson.dumps(pipeline))
    return path


def _sync(pipeline: Path) -> Sequence[str | Path]:
    return [Path(sys.executable).with_name("spark-cdk"), "sync", pipeline]


def _dlt(bench: Bench, base: str) -> Sequence[str | Path]:
    script = bench.folder / "peers" / "dlt" / "run_dlt.py"
    target = bench.fresh("dlt")
    return [bench.dlt, script, "--base-url", base, "--stage", "load", "--dest", "filesystem", "--dir", target]


def _warm(bench: Bench, job: Mapping[str, Json], program: str) -> Measured:
    path, log = bench.scratch / "job.json", bench.scratch / "warm.log"
    path.write_bytes(orjson.dumps(job))
    run([sys.executable, HERE / "warm.py", path], log=log)
    told = orjson.loads(log.read_bytes().splitlines()[-1])
    return Measured(program, told["records"], Usage(**told["usage"]), Usage(**told["start"]))
