"""`sync --report` and `--metrics`: what is written however a sync ends. It reads in its own process, without Spark."""

import json
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cdk.base.times.clock import system_clock
from tests.cli.conftest import CommandLine
from tests.cli.shop_pipeline import PIPELINE, SECRET, put_shop

SHOP = dedent("""
    from cdk import CountCursor, Page, PagedStream, Source, Stream

    class Orders(PagedStream):
        cursor = CountCursor("id", start=0)
        def read_page(self, slice, token):
            return Page([{"id": n} for n in range(3)], None)

    class Refused(Stream):
        def read_records(self, slice):
            raise ValueError(f"the source refused {self.config['api_key']}")
            yield

    class Shop(Source):
        stream_classes = [Orders, Refused]
        config_schema = {
            "type": "object",
            "properties": {"api_key": {"type": "string", "airbyte_secret": True}},
        }
""")


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put_shop(tmp_path, SHOP, monkeypatch)
    (tmp_path / "pipeline.yaml").write_text(f"{PIPELINE}\nspark: {{start: never}}\n")
    return tmp_path


def samples(path: Path) -> dict[tuple[str, ...], float]:
    """The samples of a file of metrics, by name and labels but the pipeline."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


def test_metrics_are_those_of_the_last_run_also_of_one_that_failed(cli: CommandLine, shop: Path) -> None:
    began = system_clock().timestamp()
    first = cli("sync", "pipeline.yaml", "--metrics", "shop.prom", "-q")
    metrics = samples(shop / "shop.prom")
    second = cli("sync", "pipeline.yaml", "--stream", "orders", "--metrics", "shop.prom", "-q")
    later = samples(shop / "shop.prom")

    assert (first.code, second.code) == (1, 0)
    assert metrics["spark_cdk_run_status", "shop", "failed"] == 1
    assert metrics["spark_cdk_stream_rows_written", "shop", "orders"] == 3
    assert metrics["spark_cdk_stream_failed", "system_error", "shop", "refused"] == 1
    assert metrics["spark_cdk_stream_commit_seconds", "shop", "orders"] > 0
    completed = "spark_cdk_stream_completed_timestamp_seconds", "shop"
    assert (*completed, "refused") not in metrics
    assert metrics["spark_cdk_run_started_timestamp_seconds", "shop"] == metrics[*completed, "orders"] >= began
    assert later["spark_cdk_run_status", "shop", "done"] == 1
    assert later["spark_cdk_stream_rows_written", "shop", "orders"] == 0
    assert later[*completed, "orders"] > metrics[*completed, "orders"]
    assert SECRET not in (shop / "shop.prom").read_text()


def test_a_run_that_is_refused_has_metrics_too(cli: CommandLine, shop: Path) -> None:
    (shop / "pipeline.yaml").write_text("name: shop")

    ran = cli("sync", "pipeline.yaml", "--metrics", "shop.prom", "--report", "report.json")

    assert ran.code == 1
    assert samples(shop / "shop.prom")["spark_cdk_run_status", "", "failed"] == 1
    assert json.loads((shop / "report.json").read_text())["status"] == "failed"


@pytest.mark.parametrize("option", ["--report", "--metrics"])
def test_a_file_that_cannot_lie_there_is_refused_before_anything_is_read(
    cli: CommandLine, shop: Path, option: str
) -> None:
    ran = cli("sync", "pipeline.yaml", option, "nowhere/file")

    assert (ran.code, (shop / "tables").exists()) == (2, False)
    assert f"'{option}': there is no folder 'nowhere'; create it, or choose another" in ran.stderr


def test_without_its_package_metrics_are_refused_and_nothing_else(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    refused = cli("sync", "pipeline.yaml", "--stream", "orders", "--metrics", "shop.prom")
    without = cli("sync", "pipeline.yaml", "--stream", "orders", "--report", "report.json", "-q")

    assert refused.code == 2
    assert "'--metrics': its package is missing: pip install 'spark-cdk[metrics]'" in refused.stderr
    assert (without.code, without.stderr) == (0, "")
