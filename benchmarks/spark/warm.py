"""A sync in a session that has synced before, so that no start-up counts: `warm.py JOB.json`, prints JSON.

The job: `connector`, `stream`, `config`, and `first`, the config of the small syncs that go before: one that starts
Spark, and one that tells what a sync takes for next to nothing, `start`; `cores`, `concurrency`, `target`. The CPU is
that of all processes from the first look at the pipeline to the last commit.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import orjson
from processes import mine

from cdk.base.values import Json
from cdk.sources.discovery import find_source
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, SparkOptions, StreamOptions, TargetOptions


def main() -> None:
    """Sync three times; the second and the third are measured."""
    job = orjson.loads(Path(sys.argv[1]).read_bytes())
    source = find_source(job["connector"])

    def sync(name: str, config: Mapping[str, Json]) -> int:
        pipeline = Pipeline(
            name=name,
            source=SourceOptions(connector=job["connector"], config=config),
            target=TargetOptions(path=f"{job['target']}/{name}"),
            streams={job["stream"]: StreamOptions()},
            concurrency=job["concurrency"],
            spark=SparkOptions(master=f"local[{job['cores']},4]"),
        )
        result = SyncRunner(pipeline, source).run()
        if not result.ok:
            raise RuntimeError(f"{name}: {[report.failure for report in result.streams]}")
        return sum(report.written for report in result.streams)

    sync("first", job["first"])
    before = mine()
    sync("start", job["first"])
    begun = mine()
    records = sync("timed", job["config"])
    told = {"records": records, "usage": asdict(mine().since(begun)), "start": asdict(begun.since(before))}
    sys.stdout.write(orjson.dumps(told).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
