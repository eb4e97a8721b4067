"""What a connector does wrong is said with its line, and in full in a file, without secrets."""

from pathlib import Path
from textwrap import dedent

from cdk.base.task_map import run_inline
from cdk.sources.discovery import find_source
from cdk.spark.sync_runner import SyncRunner
from cdk.sync.reports.run_report import SyncResult
from cdk.sync.settings.pipeline_file import Pipeline, SourceOptions, TargetOptions
from cdk.sync.tasks.messages import Failure
from cdk.sync.tasks.workers import Workers

SECRET = "hunter-of-rows"
BROKEN = dedent("""
    import json
    from pathlib import Path

    from cdk import Page, PagedStream, ServerError, Source


    def amount(text):
        return json.loads(text)["amount"]


    class Orders(PagedStream):
        def read_page(self, slice, token):
            if Path(__file__).with_name("mended").exists():
                return Page([{"id": 1}], None)
            return Page([{"id": amount("[" + self.config["key"])}], None)


    class Missing(Orders):
        def partitions(self):
            raise KeyError("part")


    class Refused(Orders):
        def read_page(self, slice, token):
            raise ServerError("the source is down", detail=f"asked with {self.config['key']}")


    class Shop(Source):
        stream_classes = [Orders, Missing, Refused]
        config_schema = {
            "type": "object",
            "properties": {"key": {"type": "string", "airbyte_secret": True}},
        }
""")


def sync(folder: Path) -> SyncResult:
    (folder / "broken_shop.py").write_text(BROKEN)
    pipeline = Pipeline(
        name="shop",
        source=SourceOptions(connector="broken_shop.py", config={"key": SECRET}),
        target=TargetOptions(path=str(folder / "lake")),
    )
    return SyncRunner(pipeline, find_source(str(folder / "broken_shop.py")), workers=Workers(run_inline, 1)).run()


def test_the_last_line_of_the_connector_is_said_and_the_rest_is_in_a_file(tmp_path: Path) -> None:
    result = sync(tmp_path)
    file, lines = tmp_path / "broken_shop.py", BROKEN.splitlines()

    said = {report.name: report.failure.message for report in result.streams if report.failure}
    line = lines.index('    return json.loads(text)["amount"]') + 1
    assert said["orders"].startswith("JSONDecodeError: ")
    assert said["orders"].endswith(f" ({file}:{line}, in amount)")
    line = lines.index('        raise KeyError("part")') + 1
    assert said["missing"] == f"KeyError: 'part' ({file}:{line}, in partitions)"
    assert said["refused"] == "the source is down"

    assert result.traces == tmp_path / "lake" / "_cdk" / "shop.traces.log"
    traces = result.traces.read_text()
    assert "json/decoder.py" in traces
    assert f'File "{file}", line {line}, in partitions' in traces
    assert "asked with ***" in traces
    assert SECRET not in traces


def test_a_sync_that_goes_well_leaves_no_old_traces(tmp_path: Path) -> None:
    first = sync(tmp_path)
    (tmp_path / "mended").touch()
    assert first.traces is not None

    second = sync(tmp_path)

    assert {report.name for report in second.streams if report.failure} == {"missing", "refused"}
    assert "orders" not in first.traces.read_text()


def test_an_error_that_no_connector_is_part_of_names_no_line() -> None:
    assert Failure.of(ValueError("odd")).message == "ValueError: odd"
