"""A sync whose workers are of this process needs no pyspark."""

import subprocess
import sys
from pathlib import Path

from deltalake import DeltaTable

_PROGRAM = """
import sys
from pathlib import Path


class NoSpark:
    @staticmethod
    def find_spec(name, *_):
        if name.partition(".")[0] in {"pyspark", "py4j"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, NoSpark)

from cdk import Source, Stream
from cdk.sync.loop.runner import SyncRunner
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions


class Numbers(Stream):
    name = "numbers"
    primary_key = "id"

    def json_schema(self):
        return {"properties": {"id": {"type": "integer"}}}

    def read_records(self, slice):
        yield from ({"id": n} for n in range(3))


class Counting(Source):
    def streams(self, config):
        return [Numbers()]


target = TargetOptions(path=sys.argv[1])
result = SyncRunner(Pipeline(name="p", source=SourceOptions(connector="n"), target=target), Counting()).run()
print(*((report.name, report.read, report.written, report.failure) for report in result.streams))
"""


def test_a_sync_in_this_process_runs_where_pyspark_is_not_installed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "('numbers', 3, 3, None)\n"
    assert DeltaTable(tmp_path / "numbers").to_pyarrow_table()["id"].to_pylist() == [0, 1, 2]
