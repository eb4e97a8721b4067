"""`spark-cdk runs`: what it lists, by the commits of a pipeline's tables and by reports."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cdk.base.values import Json
from tests.cli.conftest import CommandLine
from tests.cli.ui.shop_folder import SECRET, put_shop


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a run failed, and a later one read one of its streams to its end."""
    return put_shop(tmp_path, monkeypatch)


def history(folder: Path) -> Path:
    return folder / "tables" / "_cdk" / "shop.runs"


def listed(cli: CommandLine, *argv: str) -> list[Json]:
    ran = cli("runs", "pipeline.yaml", "--json", *argv)
    assert (ran.code, ran.stderr) == (0, "")
    answer = json.loads("\n".join(ran.lines))
    assert (answer["format"], answer["pipeline"]) == ("spark-cdk-runs/1", "shop")
    return answer["runs"]  # type: ignore[no-any-return]


@pytest.mark.usefixtures("folder")
def test_runs_are_listed_with_how_each_ended_the_newest_first(cli: CommandLine) -> None:
    ran = cli("runs", "pipeline.yaml")

    assert (ran.code, ran.stderr) == (0, "")
    resumed, failed = (line.split() for line in ran.lines[3:5])
    assert resumed[-7:-2] == ["s", "3", "3", "1", "done"]
    assert failed[5:9] == ["4", "4", "3", "failed"]
    assert "3 streams, broken: " in ran.lines[4]
    assert "the door is shut" not in ran.lines[4]
    assert ran.lines[-1] == "shop: 2 runs"
    assert SECRET not in "".join(ran.lines)


@pytest.mark.usefixtures("folder")
def test_the_streams_of_each_run_come_on_demand(cli: CommandLine) -> None:
    ran = cli("runs", "pipeline.yaml", "--streams")

    failed = {line.split()[0]: line for line in ran.lines[6:9]}
    assert sorted(failed) == ["broken", "orders", "visits"]
    assert "1  failed  the door is shut, says ****" in failed["visits"]
    assert "1  done" in failed["orders"]


def test_programs_get_figures_of_runs_and_streams(cli: CommandLine, folder: Path) -> None:
    report = json.loads((folder / "failed.json").read_text())

    resumed, failed = listed(cli)

    assert (resumed["status"], resumed["error"], resumed["rows"], resumed["commits"]) == ("done", None, 3, 1)
    assert (failed["sync_id"], failed["started_at"]) == (report["sync_id"], report["started_at"])
    assert (failed["reported"], failed["seconds"]) == (True, report["duration_seconds"])
    assert failed["error"].startswith("broken: ")
    visits = next(each for each in failed["streams"] if each["stream"] == "visits")
    assert (visits["status"], visits["rows"], visits["commits"]) == ("failed", 2, 1)


@pytest.mark.usefixtures("folder")
def test_as_many_runs_are_listed_as_are_wanted(cli: CommandLine) -> None:
    assert [run["rows"] for run in listed(cli, "-n", "1")] == [3]


def test_without_reports_the_commits_say_whether_streams_were_read_to_their_ends(
    cli: CommandLine, folder: Path
) -> None:
    shutil.rmtree(history(folder))

    resumed, failed = listed(cli)

    assert (resumed["status"], resumed["reported"], resumed["error"]) == ("done", False, None)
    assert failed["status"] == "interrupted"
    assert {each["stream"]: each["status"] for each in failed["streams"]}["orders"] == "done"
    assert " ≥ " in cli("runs", "pipeline.yaml").lines[3]


def test_runs_that_committed_nothing_are_listed_by_their_reports(cli: CommandLine, folder: Path) -> None:
    assert cli("sync", "pipeline.yaml", "--stream", "visits").code == 0
    assert cli("sync", "pipeline.yaml", "--stream", "broken").code == 1
    assert cli("sync", "pipeline.yaml", "--stream", "elsewhere").code == 1

    refused, failed, nothing, *_ = listed(cli)

    assert (nothing["status"], nothing["rows"], nothing["commits"]) == ("done", 0, 0)
    assert (failed["status"], failed["commits"]) == ("failed", 0)
    assert "broken: " in failed["error"]
    assert (refused["status"], refused["sync_id"]) == ("failed", None)
    assert "elsewhere" in refused["error"]
    assert SECRET not in "".join(path.read_text() for path in history(folder).iterdir())


@pytest.mark.parametrize("commits", [0, 1])
def test_records_that_no_commit_covers_were_read_as_the_report_says(
    cli: CommandLine, folder: Path, commits: int
) -> None:
    if not commits:
        assert cli("sync", "pipeline.yaml", "--stream", "visits").code == 0
    run = listed(cli)[0]
    assert run["commits"] == commits
    path = next(history(folder).glob(f"*-{run['sync_id']}.json"))
    report = json.loads(path.read_text())
    for stream in report["streams"]:
        stream["records"] |= {"read": 7, "skipped": 7 - stream["records"]["written"]}
    path.write_text(json.dumps(report))

    read_again = listed(cli)[0]

    assert (read_again["read"], [each["read"] for each in read_again["streams"]]) == (7, [7])


def test_an_attempt_that_committed_nothing_is_listed_beside_the_one_that_went_on_with_it(
    cli: CommandLine, folder: Path
) -> None:
    path = next(history(folder).glob(f"*-{listed(cli)[0]['sync_id']}.json"))
    error = {"message": "Spark was lost"}
    times = {"started_at": "2024-01-01T00:00:00+00:00", "ended_at": "2024-01-01T00:00:01+00:00"}
    attempt = {**json.loads(path.read_text()), **times, "status": "failed", "error": error, "streams": []}
    (history(folder) / f"20240101T000000000000-{attempt['sync_id']}.json").write_text(json.dumps(attempt))

    went_on, _, failed = listed(cli)

    assert failed["sync_id"] == went_on["sync_id"]
    assert (went_on["status"], went_on["commits"]) == ("done", 1)
    assert (failed["status"], failed["error"], failed["commits"]) == ("failed", "Spark was lost", 0)


def test_figures_are_those_of_the_report_where_the_log_has_them_no_more(cli: CommandLine, folder: Path) -> None:
    for name in ("orders", "visits", "broken"):
        shutil.rmtree(folder / "tables" / name)

    resumed, failed = listed(cli)

    assert [(run["rows"], run["commits"]) for run in (resumed, failed)] == [(3, 1), (4, 3)]


@pytest.mark.parametrize(("runs_still", "status"), [(True, "running"), (False, "interrupted")])
def test_a_run_that_has_not_ended_runs_or_was_killed(
    cli: CommandLine, folder: Path, *, runs_still: bool, status: str
) -> None:
    sync = listed(cli)[0]["sync_id"]
    next(history(folder).glob(f"*-{sync}.json")).unlink()
    holder = f"process {os.getpid()} on {socket.gethostname() if runs_still else 'another'}"
    (folder / "tables" / "_cdk" / "shop.sync").write_text(f"{sync} by {holder}")

    assert listed(cli)[0]["status"] == status


@pytest.mark.parametrize(
    ("point", "is_first"), [("task_begins", True), ("after_state_blob", True), ("page_read", False)]
)
def test_a_run_that_was_killed_before_its_first_commit_is_listed_until_the_next_one_goes_on_with_it(
    cli: CommandLine,
    folder: Path,
    point: str,
    is_first: bool,  # noqa: FBT001
) -> None:
    if is_first:
        shutil.rmtree(folder / "tables")
    before = [] if is_first else listed(cli)
    command = [sys.executable, "-m", "cdk", "sync", "pipeline.yaml", "--stream", "orders", "--force-rerun"]
    environment = {**os.environ, "CDK_CRASH_AT": point}
    assert subprocess.run(command, cwd=folder, env=environment, check=False).returncode == -signal.SIGKILL

    killed, *others = listed(cli)

    assert others == before
    assert (killed["status"], killed["reported"], killed["commits"], killed["streams"]) == ("interrupted", False, 0, [])
    assert cli("sync", "pipeline.yaml", "--stream", "orders").code == 0
    went_on, *others = listed(cli)
    assert (others, went_on["sync_id"], went_on["status"]) == (before, killed["sync_id"], "done")


def test_a_report_from_before_the_run_was_gone_on_with_does_not_say_how_it_ended(
    cli: CommandLine, folder: Path
) -> None:
    path = next(history(folder).glob(f"*-{listed(cli)[0]['sync_id']}.json"))
    report = json.loads(path.read_text())
    report |= {"status": "failed", "started_at": "2020-01-01T00:00:00+00:00", "ended_at": "2020-01-01T00:00:01+00:00"}
    path.write_text(json.dumps(report))

    assert listed(cli)[0]["status"] == "done"


def test_a_run_that_goes_on_with_a_killed_one_by_other_streams_is_not_done(cli: CommandLine, folder: Path) -> None:
    shutil.rmtree(folder / "tables")
    with (folder / "pipeline.yaml").open("a") as file:
        file.write("checkpoint_interval: 0s\n")
    command = [sys.executable, "-m", "cdk", "sync", "pipeline.yaml", "--stream", "visits"]
    environment = {**os.environ, "CDK_CRASH_AT": "after_commit"}
    assert subprocess.run(command, cwd=folder, env=environment, check=False).returncode == -signal.SIGKILL

    assert cli("sync", "pipeline.yaml", "--stream", "orders").code == 0

    [run] = listed(cli)
    assert (run["status"], run["reported"]) == ("interrupted", True)
    assert {each["stream"]: each["status"] for each in run["streams"]} == {"orders": "done", "visits": "interrupted"}

    assert cli("sync", "pipeline.yaml").code == 1
    assert listed(cli)[0]["sync_id"] != run["sync_id"]


def test_what_people_do_to_states_is_no_commit_of_a_run(cli: CommandLine, folder: Path) -> None:
    before = listed(cli)

    assert cli("state", "rewind", "pipeline.yaml", "--stream", "orders", "--to", "2").code == 0
    assert cli("state", "reset", "pipeline.yaml", "--stream", "visits").code == 0

    assert listed(cli) == before

    shutil.rmtree(history(folder))
    assert listed(cli)[0]["status"] == "done"


def test_a_state_that_a_sync_is_told_to_forget_is_a_commit_of_that_sync(cli: CommandLine, folder: Path) -> None:
    with (folder / "pipeline.yaml").open("a") as file:
        file.write("state: {ignore_old_state: true}\n")

    assert cli("sync", "pipeline.yaml", "--stream", "visits").code == 0

    assert (listed(cli)[0]["rows"], listed(cli)[0]["commits"]) == (5, 2)


def test_a_pipeline_has_its_own_runs_where_another_writes_to_the_same_tables(cli: CommandLine, folder: Path) -> None:
    before = listed(cli)
    file = folder / "pipeline.yaml"
    (folder / "other.yaml").write_text(file.read_text().replace("name: shop", "name: other", 1))
    assert cli("state", "fork", "pipeline.yaml", "other").code == 0
    assert cli("sync", "other.yaml", "--stream", "visits", "--stream", "orders").code == 0

    assert listed(cli) == before
    others = json.loads("\n".join(cli("runs", "other.yaml", "--json").lines))["runs"]
    assert [run["reported"] for run in others] == [True]
    assert others[0]["sync_id"] not in [run["sync_id"] for run in before]


def test_a_pipeline_that_never_ran_has_no_runs(cli: CommandLine, folder: Path) -> None:
    (folder / "tables").rename(folder / "away")
    (folder / "tables").mkdir()

    assert listed(cli) == []
    assert cli("runs", "pipeline.yaml").lines == ["shop: no sync has run yet"]


def test_what_cannot_be_read_is_an_error(cli: CommandLine) -> None:
    ran = cli("runs", "nowhere.yaml")

    assert ran.code == 1
    assert "nowhere.yaml" in ran.stderr
