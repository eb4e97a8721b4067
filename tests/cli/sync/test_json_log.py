"""`sync --log-format json`: each line is JSON, has its run and stream, and no secret. Syncs read in this process."""

import json
import logging
import subprocess
import sys
import warnings
from pathlib import Path
from textwrap import dedent

import pytest

from cdk.base.logs import logger
from cdk.base.secret_masking import Secrets
from cdk.base.values import Json
from cdk.cli.sync.json_log import JsonLog, RunNames, logging_json
from cdk.rest.http.activity import Activity, working_for
from tests.cli.conftest import CommandLine, Ran
from tests.cli.shop_pipeline import PIPELINE, SECRET, put_shop

SHOP = dedent("""
    import logging, os, signal, sys
    from cdk import Page, PagedStream, Source, Stream

    class Orders(PagedStream):
        def read_page(self, slice, token):
            logging.getLogger("shop").warning("a key %s", self.config["api_key"])
            print("a printed key", self.config["api_key"])
            print("a key in an error", self.config["api_key"], file=sys.stderr)
            return Page([{"id": n} for n in range(3)], None)

    class Refused(Stream):
        def read_records(self, slice):
            raise ValueError(f"the source refused {self.config['api_key']}")
            yield

    class Killed(PagedStream):
        def read_page(self, slice, token):
            if token is None:
                os.kill(os.getpid(), signal.SIGTERM)
            n = token["page"] if token else 1
            return Page([{"id": n}], {"page": n + 1})

    class Shop(Source):
        stream_classes = [Orders, Refused, Killed]
        config_schema = {
            "type": "object",
            "properties": {"api_key": {"type": "string", "airbyte_secret": True}},
        }
""")
ALWAYS = ["timestamp", "level", "pipeline", "sync_id", "stream", "message", "logger"]


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put_shop(tmp_path, SHOP, monkeypatch)
    (tmp_path / "pipeline.yaml").write_text(f"{PIPELINE}\nspark: {{start: never}}\n")
    return tmp_path


def lines(ran: Ran) -> list[Json]:
    """The lines of a log, of which each is one."""
    assert ran.lines == []
    assert SECRET not in ran.stderr
    logged = [json.loads(line) for line in ran.stderr.splitlines()]
    assert all(list(line)[: len(ALWAYS)] == ALWAYS for line in logged)
    return logged


def test_streams_their_errors_and_the_run_are_lines_with_figures(cli: CommandLine, shop: Path) -> None:
    ran = cli(
        *("sync", "pipeline.yaml", "--stream", "orders", "--stream", "refused"),
        *("--log-format", "json", "--report", "report.json"),
    )

    logged, sync = lines(ran), json.loads((shop / "report.json").read_text())["sync_id"]
    (orders,) = [line for line in logged if line["stream"] == "orders" and "status" in line]
    (error,) = [line for line in logged if line["level"] == "ERROR" and line["stream"] == "refused"]
    assert ran.code == 1
    assert {(line["pipeline"], line["sync_id"]) for line in logged} == {("shop", sync)}
    assert (orders["status"], orders["read"], orders["written"], orders["commits"]) == ("done", 3, 3, 1)
    assert "ValueError: the source refused ****" in error["message"]
    assert ("shop", "a key ****") in {(line["logger"], line["message"]) for line in logged}
    assert (logged[-1]["status"], logged[-1]["level"], logged[-1]["stream"]) == ("failed", "ERROR", None)


@pytest.mark.parametrize(
    ("options", "levels"),
    [(["--quiet"], ["WARNING"]), (["--no-progress"], ["WARNING", "INFO", "INFO", "INFO", "INFO"])],
)
def test_less_can_be_logged(cli: CommandLine, options: list[str], levels: list[str]) -> None:
    ran = cli("sync", "pipeline.yaml", "--stream", "orders", "--log-format", "json", *options)

    assert (ran.code, [line["level"] for line in lines(ran)]) == (0, levels)


@pytest.mark.parametrize(
    "start", ["{start: never}", pytest.param("{start: always, master: 'local[1]'}", marks=pytest.mark.spark)]
)
@pytest.mark.parametrize("options", [(), ("--log-format", "json")], ids=["text", "json"])
def test_what_a_connector_logs_and_prints_is_on_standard_error_without_secrets(
    shop: Path, start: str, options: tuple[str, ...]
) -> None:
    (shop / "pipeline.yaml").write_text(f"{PIPELINE}\nspark: {start}\n")

    command = [sys.executable, "-m", "cdk", "sync", "pipeline.yaml", "--stream", "orders", "--no-progress", *options]
    ran = subprocess.run(command, cwd=shop, capture_output=True, text=True, timeout=240, check=True)

    if options:
        assert ran.stdout == ""
        logged = list(map(json.loads, ran.stderr.splitlines()))
        prints = [(line["message"], line["stream"]) for line in logged if line["logger"] == "print"]
        assert prints == [("a printed key ****", "orders"), ("a key in an error ****", "orders")]
        shown = next(line for line in logged if line["logger"] == "shop")
        assert (shown["message"], shown["stream"], shown["level"]) == ("a key ****", "orders", "WARNING")
    else:
        assert "printed" not in ran.stdout
        assert {"a printed key ****", "a key in an error ****", "a key ****"} <= set(ran.stderr.splitlines())
    everywhere = b"".join(file.read_bytes() for file in shop.rglob("*") if file.suffix in {".log", ".parquet", ".json"})
    assert SECRET.encode() not in everywhere
    assert SECRET not in ran.stderr


def test_an_error_that_ends_the_command_is_a_line(cli: CommandLine, shop: Path) -> None:
    (shop / "pipeline.yaml").write_text(f"{PIPELINE}\nconcurrency: much\n")

    ran = cli("sync", "pipeline.yaml", "--log-format", "json")

    (line,) = lines(ran)
    assert (ran.code, line["exit_code"], line["level"], line["pipeline"]) == (1, 1, "CRITICAL", None)
    assert "concurrency: found 'much'" in line["message"]


def test_that_it_is_told_to_end_is_a_line(cli: CommandLine) -> None:
    ran = cli("sync", "pipeline.yaml", "--stream", "killed", "--log-format", "json")

    logged = lines(ran)
    assert (ran.code, logged[-1]["status"]) == (143, "interrupted")
    assert "SIGTERM: ending at the next checkpoints; a second signal ends it at once" in [
        line["message"] for line in logged
    ]


def test_a_line_is_of_the_stream_that_its_thread_works_for_or_that_it_names(capfd: pytest.CaptureFixture[str]) -> None:
    log = JsonLog(Secrets([SECRET]))
    log.names = lambda: RunNames("4711", frozenset({"orders"}))
    with warnings.catch_warnings(action="always"), logging_json(log):
        logger.info("%s: waits", "orders")
        logger.info("%s: waits", "nobody")
        with working_for("users", Activity()):
            logger.info("waiting %.1f s", 1.0)
            logger.debug("too much")
            logger.error("%s", SECRET, exc_info=ValueError(f"no {SECRET}\nwith two lines"))
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        logging.getLogger("theirs").info("too much")
    logger.error("behind it")

    logged = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["stream"] for line in logged] == ["orders", None, "users", "users", None]
    assert [line["logger"] for line in logged] == ["cdk"] * 4 + ["py.warnings"]
    assert (logged[3]["message"], logged[3]["exception"]) == ("****", "ValueError: no ****\nwith two lines")
