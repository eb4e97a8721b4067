import json
import socket
import threading
from pathlib import Path
from urllib.request import urlopen

import pytest

from cdk.cli.authoring.simulate import server
from cdk.sources.discovery import find_source
from cdk.testing import Simulator
from tests.cli.conftest import CommandLine
from tests.worlds.table import rows

NOTES = """
from cdk import DatetimeCursor
from cdk.rest import Bearer, PageNumber, RestSource, resource

schema = {"type": "object", "properties": {"id": {"type": "integer"}, "text": {"type": "string"}}}
source = RestSource(
    "https://api.example.com",
    resource(
        "notes", "/notes", records_path="notes", primary_key="id", params={"since": "{window.start}"}, schema=schema,
        paginator=PageNumber(more=["more"]), cursor=DatetimeCursor("changed_at", start="2024-01-01T00:00:00Z"),
    ),
    resource("tags", "/notes/{notes.id}/tags", records_path="tags", primary_key="id"),
    auth=Bearer("{config.token}"),
)
"""
OPTIONS = ("--connector", "notes.py")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.py"
    path.write_text(NOTES)
    return path


@pytest.mark.usefixtures("notes")
def test_streams_are_read_and_synced_without_credentials_and_later_rounds_bring_what_is_new(
    cli: CommandLine, tmp_path: Path
) -> None:
    first = cli("read", *OPTIONS, "--simulate", "records=12")
    (tmp_path / "state.jsonl").write_text("\n".join(first.lines))
    later = cli("read", *OPTIONS, "--simulate", "records=12,round=1", "--state", "state.jsonl")
    for number in range(2):
        world = f"records=12,round={number},faults"
        synced = cli("sync", *OPTIONS, "--simulate", world, "--target", "tables", "--stream", "notes", "-q")
        assert synced.code == 0, synced.stderr

    read = [m["record"]["data"] for m in first.of_type("RECORD") if m["record"]["stream"] == "notes"]
    new = [m["record"]["data"] for m in later.of_type("RECORD") if m["record"]["stream"] == "notes"]
    assert (len(read), len(new)) == (12, 3)
    assert min(row["changed_at"] for row in new) >= max(row["changed_at"] for row in read)
    assert {row["id"] for row in rows(tmp_path / "tables" / "notes")} == set(range(1, 14))


@pytest.mark.usefixtures("notes")
def test_a_simulated_api_is_shown_previewed_recorded_and_proved(cli: CommandLine) -> None:
    shown = cli("simulate", *OPTIONS, "records=12")
    previewed = cli("preview", *OPTIONS, "tags", "--simulate", "records=12", "--json")
    recorded = cli("record", *OPTIONS, "--simulate", "records=3", "--cassette", "notes.yaml")
    proved = cli("prove", *OPTIONS, "--cassette", "notes.yaml", "--at-commits", "1", "--at-random", "0")

    assert (shown.code, shown.lines[0].split()) == (0, ["stream", "requests", "records", "pages", "of", "notes"])
    assert shown.lines[1].split() == ["notes", "GET", "https://api.example.com/notes", "12", "10"]
    assert shown.lines[2].split()[:3] == ["tags", "GET", "https://api.example.com/notes/*/tags"]
    assert (previewed.code, recorded.code, proved.code) == (0, 0, 0)


@pytest.mark.usefixtures("notes")
def test_a_pipeline_is_simulated_with_its_write_modes_and_its_own_tables_and_states_are_left_alone(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"token": "${A_TOKEN_THAT_IS_NOT_SET}"}')
    (tmp_path / "pipeline.yaml").write_text(
        "name: notes\n"
        "source: {connector: notes.py, config: config.json}\n"
        "target: {path: lake}\n"
        "streams: {notes: {write_mode: append_dedup}}\n"
        "state: {state_provider: {type: local, config: {path: log}}}\n"
    )
    before = {path for path in tmp_path.iterdir() if path.name != "__pycache__"}
    runs = [
        cli("sync", "pipeline.yaml", "--simulate", f"records=12,round={number}", "--target", "trial", "-q")
        for number in range(2)
    ]
    unsimulated = cli("sync", "pipeline.yaml", "--target", "trial")

    assert [run.code for run in runs] == [0, 0], [run.stderr for run in runs]
    ids = [row["id"] for row in rows(tmp_path / "trial" / "notes")]
    assert sorted(ids) == [*range(1, 14)]
    assert {path for path in tmp_path.iterdir() if path.name != "__pycache__"} == {*before, tmp_path / "trial"}
    assert "a PIPELINE file sets what --target would" in unsimulated.stderr


@pytest.mark.usefixtures("notes")
def test_a_pipeline_replays_a_cassette_into_other_tables_and_its_own_tables_and_states_are_left_alone(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        "name: notes\n"
        "source: {connector: notes.py, config: {token: t}}\n"
        "target: {path: lake}\n"
        "state: {state_provider: {type: local, config: {path: log}}}\n"
    )
    cli("record", *OPTIONS, "--simulate", "records=12", "--cassette", "notes.yaml", "--stream", "notes")
    before = {path for path in tmp_path.iterdir() if path.name != "__pycache__"}
    command = ("sync", "pipeline.yaml", "--cassette", "notes.yaml", "--stream", "notes", "-q")
    refused, replayed = cli(*command), cli(*command, "--target", "trial")

    assert refused.code == 2
    assert (
        "Missing option '--target': where do the tables go? Those of pipeline.yaml would get the records of the "
        "cassette" in refused.stderr
    )
    assert replayed.code == 0, replayed.stderr
    assert len(rows(tmp_path / "trial" / "notes")) == 12
    assert {path for path in tmp_path.iterdir() if path.name != "__pycache__"} == {*before, tmp_path / "trial"}


@pytest.mark.usefixtures("notes")
def test_a_proof_by_generated_records_says_that_they_are(cli: CommandLine, tmp_path: Path) -> None:
    limits = ("--at-commits", "1", "--at-random", "0", "--badge", "badge.svg")

    proved = cli("prove", *OPTIONS, "--simulate", "records=4", *limits)

    assert proved.code == 0, proved.stderr
    assert "note: all records were generated (--simulate); no request was sent to the API" in proved.lines
    assert "generated rows" in (tmp_path / "badge.svg").read_text()


def test_the_api_is_served_with_links_that_lead_to_the_server(notes: Path) -> None:
    simulator = Simulator(find_source(str(notes)))
    with server(simulator, 0) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()  # noqa: TID251 - a server to ask
        with urlopen(f"http://127.0.0.1:{httpd.server_port}/notes?page=3") as response:
            body = json.loads(response.read())
        httpd.shutdown()
    assert len(body["notes"]) == 5
    assert body["more"] is False


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("read", *OPTIONS, "--simulate", "rows=1"), "--simulate: found 'rows=1', expected records=N, seed=N, round=N"),
        (
            ("sync", "pipeline.yaml", "--simulate"),
            "Missing option '--target': where do the tables go? Those of pipeline.yaml would get generated records",
        ),
        (("sync", "--simulate"), "which connector?"),
        (
            ("read", *OPTIONS, "--simulate", "records=1", "--cassette", "notes.yaml"),
            "'--cassette' and '--simulate' exclude each other: pass one of them",
        ),
    ],
)
def test_a_world_or_a_connector_that_is_none_is_refused(cli: CommandLine, arguments: list[str], text: str) -> None:
    run = cli(*arguments)
    assert run.code != 0
    assert text in run.stderr


def test_a_command_without_a_connector_names_the_manifest_that_is_there(cli: CommandLine, tmp_path: Path) -> None:
    without = cli("preview", "notes").stderr
    (tmp_path / "manifest.yaml").write_text("version: 6.0.0")

    beside = cli("preview", "notes").stderr

    assert "which connector?\n" in without
    assert "which connector? There is manifest.yaml here: --manifest-path manifest.yaml" in beside


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize("command", [("simulate", *OPTIONS), ("ui",)])
def test_a_port_that_is_taken_is_an_error_that_says_so(cli: CommandLine, command: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        run = cli(*command, "--port", str(port))

    assert run.code == 1
    assert f"--port {port}: cannot listen on it (Address already in use); choose another port" in run.stderr
