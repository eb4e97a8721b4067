"""What tasks log and print: nothing where they run, all of it where their results go."""

import logging
import warnings

import pytest

from cdk.base.logs import STREAM, log_records, logger, retries
from cdk.base.process.printed_lines import prints_on_stderr
from cdk.base.secret_masking import Secrets
from cdk.rest.http.activity import Activity, working_for
from cdk.spark.cluster.task_logs import gathering_lines, log_levels, masked_lines


def test_what_a_task_logs_is_logged_again_with_its_time_its_stream_and_its_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with warnings.catch_warnings(), gathering_lines(log_levels()) as lines, working_for("orders", Activity()):
        warnings.simplefilter("always")
        logging.getLogger("shop").warning("%d odd pages", 3)
        warnings.warn("an old name", DeprecationWarning, stacklevel=1)
        try:
            int("odd")
        except ValueError:
            logging.getLogger("shop").exception("failed")
    assert capfd.readouterr() == ("", "")

    records: list[logging.LogRecord] = []
    with log_records(records.append, logging.getLogger()):
        for line in lines:
            line.repeat()

    odd, old, failed = records
    assert (odd.name, odd.levelname, odd.getMessage()) == ("shop", "WARNING", "3 odd pages")
    assert vars(odd)[STREAM] == "orders"
    assert odd.created == lines[0].created > 0
    assert old.name == "py.warnings"
    assert "an old name" in old.getMessage()
    assert failed.exc_text is not None
    assert "ValueError" in failed.exc_text


def test_what_a_task_prints_is_shown_on_standard_error_with_its_stream(capfd: pytest.CaptureFixture[str]) -> None:
    with gathering_lines(log_levels()) as lines, working_for("orders", Activity()):
        print("a key pa-ss-word")
    assert capfd.readouterr() == ("", "")

    with prints_on_stderr(Secrets(["pa-ss-word"])):
        for line in lines:
            line.repeat()

    assert capfd.readouterr() == ("", "a key ****\n")
    assert (lines[0].stream, lines[0].created > 0) == ("orders", True)


def test_a_task_logs_what_its_driver_listens_to() -> None:
    with log_records(print, retries, lowest=logging.INFO):
        levels = log_levels()

    with gathering_lines(levels) as lines:
        logger.info("one page")
        retries.info("waiting")

    assert [line.text for line in lines] == ["waiting"]
    assert retries.level == logging.NOTSET


def test_handlers_of_a_connector_do_not_write_where_a_task_runs(capfd: pytest.CaptureFixture[str]) -> None:
    root, handler = logging.getLogger(), logging.StreamHandler()
    root.addHandler(handler)
    try:
        with gathering_lines(log_levels()) as lines:
            root.warning("a key")
        assert handler in root.handlers
    finally:
        root.removeHandler(handler)

    assert capfd.readouterr() == ("", "")
    assert [line.text for line in lines] == ["a key"]


def test_a_task_that_logs_without_end_says_how_much_is_left_out() -> None:
    with gathering_lines(log_levels()) as lines:
        for n in range(1200):
            logger.warning("%d", n)

    assert len(lines) == 1001
    assert lines[-1].text == "200 further lines of this task are not logged"


def test_what_the_task_of_a_query_logs_and_prints_has_no_secrets(capfd: pytest.CaptureFixture[str]) -> None:
    with masked_lines(Secrets(["pa-ss-word"])):
        logging.getLogger("shop").warning("a key %s", "pa-ss-word")
        print("pa-ss-word")
        try:
            int("pa-ss-word")
        except ValueError:
            logging.getLogger("shop").exception("failed")

    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("a key ****\n****\nfailed\nTraceback")
    assert "pa-ss-word" not in err
