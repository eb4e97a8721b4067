"""A sync that begins in its own process: Spark joins it, does not start, or is not needed any more."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from cdk import Json
from cdk.spark.cluster import spark_workers
from cdk.spark.cluster.spark_workers import SparkWorkers
from cdk.sync.settings.pipeline_file import SparkOptions

SHOP = """
import os, time
from pathlib import Path
from cdk import Page, PagedStream, Partition, Source

DRIVER = {driver}


def log():
    return "".join(file.read_text() + "begun" for file in Path("tables").rglob("*.spark.log"))


class Pages(PagedStream):
    name = "pages"

    def partitions(self):
        return [Partition.of(part=n) for n in range(4)]

    def read_page(self, slice, token):
        page = 0 if token is None else token["page"]
        time.sleep(0.1)
        return Page([{{"id": f"{{slice.partition['part']}}/{{page}}"}}], None if {ends} else {{"page": page + 1}})


class Shop(Source):
    stream_classes = [Pages]
"""
DRIVER = "os.environ.setdefault('DRIVER', str(os.getpid()))"
JOINED = "os.environ['DRIVER'] != str(os.getpid())"
STARTING = "log()"
SOON = "page == 2"


def sync(
    folder: Path, ends: str, spark: str, *, program: str = "-m cdk"
) -> tuple[subprocess.CompletedProcess[str], Json]:
    """Sync in a process of its own, whose output is awaited to its end; with its report."""
    name = f"shop-{folder.name}"
    (folder / "shop.py").write_text(SHOP.format(driver=DRIVER, ends=ends))
    (folder / "pipeline.yaml").write_text(
        f"name: {name}\nsource: {{connector: shop.py}}\ntarget: {{path: tables}}\nspark: {spark}\n"
    )
    command = [sys.executable, *program.split(maxsplit=1), "sync", "pipeline.yaml", "-q", "--report", "report.json"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    return done, orjson.loads((folder / "report.json").read_bytes())


def processes(folder: Path) -> list[bytes]:
    """The command lines of processes that a sync has left behind."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes())
        except OSError:  # it has ended
            continue
    return [line for line in lines if f"shop-{folder.name}".encode() in line]


def rows(folder: Path) -> Counter[str]:
    files = DeltaTable(str(folder / "tables" / "pages")).file_uris()
    return Counter(id for file in files for id in pq.read_table(file)["id"].to_pylist())


@pytest.mark.spark
def test_spark_takes_over_what_is_left(tmp_path: Path) -> None:
    done, report = sync(tmp_path, JOINED, "{master: 'local[2,4]'}")

    assert done.returncode == 0, done.stderr
    assert report["spark"]["master"] == "local[2,4]"
    process, spark = report["read_by"]["process"], report["read_by"]["spark"]
    assert process["records"] > 0
    # Each slice ends where it meets another process.
    assert (process["slices"], spark["slices"]) == (0, 4)
    assert process["records"] + spark["records"] == report["records"]["written"]
    pages = Counter(id.partition("/")[0] for id in rows(tmp_path))
    assert rows(tmp_path) == Counter(f"{part}/{page}" for part, count in pages.items() for page in range(count))


@pytest.mark.spark
def test_a_sync_that_ends_first_waits_for_no_spark_and_leaves_no_process(tmp_path: Path) -> None:
    done, report = sync(tmp_path, STARTING, "{master: 'local[2,4]'}")

    assert processes(tmp_path) == []
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert report["spark"] is None
    assert report["read_by"]["spark"] == {"tasks": 0, "slices": 0, "records": 0}
    assert set(rows(tmp_path).values()) == {1}


@pytest.mark.spark
def test_where_spark_cannot_start_all_is_read_in_this_process_unless_it_has_to(tmp_path: Path) -> None:
    seen = "'lots' in log() and page > 80"
    done, report = sync(tmp_path, seen, "{conf: {spark.driver.memory: lots}}")
    (tmp_path / "again").mkdir()
    refused, _ = sync(tmp_path / "again", SOON, "{start: always, conf: {spark.driver.memory: lots}}")

    assert done.returncode == 0, done.stderr
    assert report["spark"] is None
    assert done.stderr.count("everything is read in this process, because no cluster joined: ") == 1
    assert refused.returncode == 1
    assert "Spark did not start" in refused.stderr
    assert refused.stderr.endswith(": Java ended before Spark was ready: Invalid maximum heap size: -Xmxlots\n")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("spark.driver.bindAddress: 192.0.2.1", "Cannot assign requested address"),
        (
            "spark.sql.shuffle.partitions: many",
            "The value 'many' in the config \"spark.sql.shuffle.partitions\" is invalid",
        ),
    ],
)
def test_what_java_says_of_a_setting_is_one_line_of_the_error(tmp_path: Path, setting: str, reason: str) -> None:
    refused, _ = sync(tmp_path, SOON, f"{{start: always, conf: {{{setting}}}}}")

    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("Error: ")]
    assert refused.returncode == 1
    assert "Spark did not start with master 'local[" in line
    assert reason in line
    assert "\tat " not in refused.stderr


NO_SPARK = """
import sys

class NoSpark:
    @staticmethod
    def find_spec(name, *_):
        if name.partition(".")[0] in {"pyspark", "py4j"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoSpark)
from cdk.cli.app import launch
launch()
"""


@pytest.mark.parametrize("start", ["never", "needed"])
def test_a_sync_that_needs_no_spark_imports_none(tmp_path: Path, start: str) -> None:
    (tmp_path / "main.py").write_text(NO_SPARK)
    done, report = sync(tmp_path, SOON, f"{{start: {start}}}", program="main.py")

    assert done.returncode == 0, done.stderr
    assert report["spark"] is None
    assert rows(tmp_path) == Counter(f"{part}/{page}" for part in range(4) for page in range(3))


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, "needed"),
        ({"master": "local"}, "needed"),
        ({"master": "local[*, 4]"}, "needed"),
        ({"master": "local-cluster[2,1,1024]"}, "always"),
        ({"master": "spark://there:7077"}, "always"),
        ({"master": "sc://there"}, "always"),
        ({"conf": {"spark.master": "yarn"}}, "always"),
        ({"master": "spark://there:7077", "start": "needed"}, "needed"),
        ({"start": "never"}, "never"),
        ({"start": "always"}, "always"),
    ],
)
def test_a_local_spark_starts_when_it_is_needed_and_another_always(
    monkeypatch: pytest.MonkeyPatch, options: Json, mode: str
) -> None:
    monkeypatch.setattr(spark_workers, "_is_available", lambda: False)

    assert SparkWorkers(SparkOptions(**options))._start == mode


@pytest.mark.parametrize(("master", "tasks"), [("local", 1), ("local[3]", 3), ("local[3,4]", 3)])
def test_as_many_tasks_run_in_this_process_as_on_a_local_spark(master: str, tasks: int) -> None:
    assert SparkWorkers(SparkOptions(master=master, start="never"))._tasks == tasks


def test_a_session_that_is_there_is_used_unless_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")

    assert [SparkWorkers(SparkOptions(start=start))._start for start in (None, "needed", "never")] == [
        "always",
        "always",
        "never",
    ]
