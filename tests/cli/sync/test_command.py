"""`spark-cdk sync` through the command line, on a session that runs already."""

import json
import os
from pathlib import Path
from textwrap import dedent

import pytest

from cdk.base.values import Json
from cdk.lake.storage.run_lock import only_run
from tests.cli.conftest import CommandLine
from tests.cli.shop_pipeline import put_shop

pytestmark = pytest.mark.spark

SHOP = dedent("""
    import os, signal
    from cdk import Page, PagedStream, Partition, ServerError, Slice, Source, Stream

    class Orders(PagedStream):
        def read_page(self, slice, token):
            n = token["page"] if token else 0
            return Page([{"id": n}], {"page": n + 1} if n < 2 else None)

    class Refused(Stream):
        def partitions(self):
            return [Partition.of(part=self.config["api_key"])]
        def read_records(self, slice):
            raise ServerError(f"the source refused {self.config['api_key']}")
            yield

    class Interrupted(PagedStream):
        def partitions(self):
            raise KeyboardInterrupt
            yield
        def read_page(self, slice, token):
            return Page([], None)

    class Killed(Interrupted):
        def partitions(self):
            os.kill(os.getpid(), signal.SIGTERM)
            yield Partition.of(part=1)

    class Shop(Source):
        stream_classes = [Orders, Refused, Interrupted, Killed]
        config_schema = {
            "type": "object",
            "properties": {"api_key": {"type": "string", "airbyte_secret": True}},
        }
""")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_shop(tmp_path, SHOP, monkeypatch)


def report(folder: Path) -> Json:
    text = (folder / "report.json").read_text()
    assert "hunter2" not in text
    return json.loads(text)


@pytest.mark.usefixtures("shop", "session")
def test_progress_goes_to_stderr_the_summary_to_stdout_and_the_report_to_its_file(
    cli: CommandLine, tmp_path: Path
) -> None:
    ran = cli("sync", "pipeline.yaml", "--stream", "orders", "--report", "report.json")

    assert ran.code == 0
    assert ran.stderr.splitlines()[0] == "shop: 1 stream to sync"
    assert ran.stderr.splitlines()[-1].startswith("orders: done, 3 rows, 3 pages, ")
    assert ran.lines[-1].startswith("shop → tables: ")
    assert report(tmp_path)["status"] == "done"
    assert report(tmp_path)["streams"][0]["records"]["written"] == 3


@pytest.mark.usefixtures("shop", "session")
def test_progress_and_summary_can_be_left_out(cli: CommandLine) -> None:
    without = cli("sync", "pipeline.yaml", "--stream", "orders", "--no-progress")
    quiet = [cli("sync", "pipeline.yaml", "--stream", name, "-q") for name in ("orders", "refused")]

    assert (without.code, without.stderr) == (0, "")
    assert without.lines[-1].startswith("shop → tables: ")
    assert [(ran.code, ran.lines, ran.stderr) for ran in quiet] == [
        (0, [], ""),
        (1, [], "refused: the source refused ****\n"),
    ]


@pytest.mark.usefixtures("shop", "session")
def test_a_stream_that_fails_is_in_the_report_without_secrets(cli: CommandLine, tmp_path: Path) -> None:
    ran = cli("sync", "pipeline.yaml", "--stream", "orders", "--stream", "refused", "--report", "report.json")

    assert ran.code == 1
    assert report(tmp_path)["status"] == "failed"
    assert [stream["status"] for stream in report(tmp_path)["streams"]] == ["done", "failed"]
    assert report(tmp_path)["streams"][1]["error"]["message"] == "the source refused ****"


@pytest.mark.parametrize(
    ("stream", "code", "said"),
    [("interrupted", 130, "Error: interrupted; what was committed is safe"), ("killed", 143, "SIGTERM: ending ")],
)
@pytest.mark.usefixtures("shop", "session")
def test_a_sync_that_is_told_to_end_says_so_and_has_a_report(
    cli: CommandLine, tmp_path: Path, stream: str, code: int, said: str
) -> None:
    ran = cli("sync", "pipeline.yaml", "--stream", stream, "--report", "report.json")

    assert ran.code == code
    assert any(line.startswith(said) for line in ran.stderr.splitlines())
    assert "Traceback" not in ran.stderr
    assert (report(tmp_path)["status"], report(tmp_path)["error"]) == ("interrupted", None)
    assert [one["status"] for one in report(tmp_path)["streams"]] == ["interrupted"]


@pytest.mark.usefixtures("shop")
def test_a_second_run_ends_with_the_code_of_try_again_later(cli: CommandLine, tmp_path: Path) -> None:
    with only_run(tmp_path / "tables", "shop"):
        refused = cli("sync", "pipeline.yaml")

    assert refused.code == os.EX_TEMPFAIL
    assert f"another sync of the pipeline 'shop' is running, by process {os.getpid()}" in refused.stderr


@pytest.mark.usefixtures("shop")
def test_a_pipeline_that_is_wrong_has_a_report_of_why(cli: CommandLine, tmp_path: Path) -> None:
    ran = cli("sync", "pipeline.yaml", "--stream", "ordres", "--report", "report.json")

    assert ran.code == 1
    assert report(tmp_path)["status"] == "failed"
    assert report(tmp_path)["error"]["failure_type"] == "config_error"
    assert "did you mean 'orders'?" in report(tmp_path)["error"]["message"]
    assert report(tmp_path)["streams"] == []


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("command", ["sync", "plan"])
def test_a_stream_of_the_pipeline_that_the_source_lacks_is_named_with_its_line(
    cli: CommandLine, tmp_path: Path, command: str
) -> None:
    with (tmp_path / "pipeline.yaml").open("a") as file:
        file.write("streams:\n  orders: {}\n  refsued: {}\n")
    lines = (tmp_path / "pipeline.yaml").read_text().splitlines()

    ran = cli(command, "pipeline.yaml")

    assert ran.code == 1
    where = f"pipeline.yaml:{lines.index('  refsued: {}') + 1} streams.refsued: "
    assert f"{where}the source has no stream 'refsued'; did you mean 'refused'?" in ran.stderr


def test_a_pipeline_that_is_missing_has_a_report_too(cli: CommandLine, tmp_path: Path) -> None:
    ran = cli("sync", "nowhere.yaml", "--report", "report.json")

    assert ran.code == 1
    assert "nowhere.yaml" in report(tmp_path)["error"]["message"]
    assert report(tmp_path)["pipeline"] is None


@pytest.mark.usefixtures("shop")
def test_a_report_that_could_not_be_written_is_refused_before_anything_is_read(
    cli: CommandLine, tmp_path: Path
) -> None:
    ran = cli("sync", "pipeline.yaml", "--report", "reports/report.json")

    assert ran.code == 2
    assert "'--report': there is no folder 'reports'" in ran.stderr
    assert not (tmp_path / "tables").exists()
