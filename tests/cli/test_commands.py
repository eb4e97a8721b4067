"""The commands, through the command line."""

import json
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from cdk import Source
from cdk.cli import app
from cdk.cli.app import launch
from connectors.shop.api import serving
from connectors.shop.backend import Backend
from tests.cli.conftest import USERS, CommandLine
from tests.samples import Users


def test_spec_prints_the_schema_of_the_config(cli: CommandLine, guarded: str) -> None:
    ran = cli("spec", "--connector", guarded)

    assert ran.code == 0
    (message,) = ran.messages
    assert message["spec"]["connectionSpecification"]["required"] == ["api_key"]
    assert message["spec"]["documentationUrl"] == "https://example.com/docs"


def test_check_says_that_a_connection_works(cli: CommandLine, guarded: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"api_key": "right"}')

    ran = cli("check", "--connector", guarded, "--config", "c.json")

    assert (ran.code, ran.messages) == (0, [{"type": "CONNECTION_STATUS", "connectionStatus": {"status": "SUCCEEDED"}}])


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"api_key": "hunter2"}, "the source refused the key ****"),
        ({"api_kye": "hunter2"}, "c.json:1 api_key: found nothing ('api_kye' is unknown), expected a value"),
    ],
)
def test_check_that_fails_says_why_and_is_no_failure_of_the_command(
    cli: CommandLine, guarded: str, tmp_path: Path, config: object, said: str
) -> None:
    (tmp_path / "c.json").write_text(json.dumps(config))

    ran = cli("check", "--connector", guarded, "--config", "c.json")

    assert ran.code == 0
    assert ran.messages[-1]["connectionStatus"] == {"status": "FAILED", "message": said}
    assert "hunter2" not in "".join(ran.lines)


def test_discover_describes_each_stream(cli: CommandLine, guarded: str, users: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"api_key": "right"}')
    any_object = {"type": "object", "additionalProperties": True, "properties": {}}

    incremental = cli("discover", "--connector", guarded, "--config", "c.json")
    resumable = cli("discover", "--connector", users)

    assert incremental.messages[-1]["catalog"]["streams"] == [
        {
            "name": "events",
            "namespace": "log",
            "json_schema": any_object,
            "supported_sync_modes": ["full_refresh", "incremental"],
            "source_defined_cursor": True,
            "default_cursor_field": ["seq"],
            "is_resumable": False,
            "is_file_based": False,
        }
    ]
    assert resumable.messages[-1]["catalog"]["streams"] == [
        {
            "name": "users",
            "json_schema": any_object,
            "supported_sync_modes": ["full_refresh"],
            "source_defined_primary_key": [["id"]],
            "is_resumable": True,
            "is_file_based": False,
        }
    ]


def test_a_file_with_one_stream_is_read_without_further_flags(cli: CommandLine, users: str) -> None:
    ran = cli("read", "--connector", users)

    assert ran.code == 0
    assert [message["record"]["data"]["id"] for message in ran.of_type("RECORD")] == [0, 1, 2, 3, 4, 5]
    assert [message["state"]["stream"]["stream_state"] for message in ran.of_type("STATE")] == [
        {"page": 1},
        {"page": 2},
        {"__ab_full_refresh_sync_complete": True},
    ]
    assert ran.messages[-1]["trace"]["stream_status"]["status"] == "COMPLETE"


def test_a_read_goes_on_from_the_output_of_one_that_was_cut(cli: CommandLine, users: str, tmp_path: Path) -> None:
    lines = cli("read", "--connector", users).lines
    cut = next(i for i, line in enumerate(lines) if '"STATE"' in line) + 1
    (tmp_path / "out.jsonl").write_text("\n".join(lines[:cut]) + "\n" + lines[cut][:20])

    ran = cli("read", "--connector", users, "--state", "out.jsonl")

    assert [message["record"]["data"]["id"] for message in ran.of_type("RECORD")] == [2, 3, 4, 5]


def test_a_read_whose_requests_are_spent_says_its_state_then_incomplete_and_at_last_why(
    cli: CommandLine, tmp_path: Path
) -> None:
    with serving(Backend()) as address:
        (tmp_path / "c.json").write_text(json.dumps({"base_url": address}))
        ran = cli("read", "--connector", "shop", "--config", "c.json", "--max-requests", "5")

    assert ran.code == 124
    assert [message["type"] for message in ran.messages[-3:]] == ["STATE", "TRACE", "LOG"]
    assert ran.messages[-2]["trace"]["stream_status"]["status"] == "INCOMPLETE"
    assert ran.messages[-1]["log"]["message"].startswith("interrupted by max_requests: ")


def test_discover_adds_the_types_of_the_first_records_and_says_which_stream_has_none(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "both.py").write_text(
        USERS
        + dedent("""
            class Broken(PagedStream):
                def json_schema(self):
                    return {"properties": {"own": {"type": "string"}}}

                def read_page(self, slice, token):
                    raise ValueError("no page")
        """)
    )

    ran = cli("discover", "--connector", "both.py", "--infer")

    assert ran.code == 0
    assert [stream["json_schema"]["properties"] for stream in ran.messages[-1]["catalog"]["streams"]] == [
        {"id": {"type": ["null", "integer"]}},
        {"own": {"type": "string"}},
    ]
    (line,) = ran.of_type("LOG")
    assert "broken" in line["log"]["message"]
    assert "no page" in line["log"]["message"]


def test_discover_names_a_key_and_writes_what_it_infers_where_no_other_schema_is(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "keyless.py").write_text(USERS.replace('primary_key = "id"', ""))
    command = ("discover", "--connector", "keyless.py", "--infer", "--schemas", "inferred")
    first, second = cli(*command), cli(*command)
    file = tmp_path / "inferred" / "users.json"
    written = json.loads(file.read_text())
    file.write_text('{"type": "array"}')
    third = cli(*command)

    logs = [[line["log"]["message"] for line in ran.of_type("LOG")] for ran in (first, second, third)]
    other = f"{Path('inferred/users.json')}: another schema exists and is left as it is; remove it to write this one"
    assert written == first.messages[-1]["catalog"]["streams"][0]["json_schema"]
    assert logs == [["users: its primary key may be: id"]] * 2 + [["users: its primary key may be: id", other]]
    assert file.read_text() == '{"type": "array"}'
    assert cli(*command[:3], *command[4:]).code == 2


def test_the_catalog_of_discover_can_be_read(cli: CommandLine, users: str, tmp_path: Path) -> None:
    (tmp_path / "catalog.json").write_text("\n".join(cli("discover", "--connector", users).lines))

    assert len(cli("read", "--connector", users, "--catalog", "catalog.json").of_type("RECORD")) == 6


def test_slices_may_be_read_at_once(cli: CommandLine, users: str) -> None:
    assert len(cli("read", "--connector", users, "--concurrency", "4").of_type("RECORD")) == 6


def test_logs_and_prints_of_a_connector_do_not_break_the_lines_and_hide_secrets(
    cli: CommandLine, guarded: str, tmp_path: Path
) -> None:
    (tmp_path / "c.json").write_text('{"api_key": "hunter2"}')

    ran = cli("read", "--connector", guarded, "--config", "c.json")

    assert ran.code == 0
    assert ran.of_type("LOG") == [{"type": "LOG", "log": {"level": "WARN", "message": "using ****"}}]
    assert ran.stderr == "this must not get between the lines\n"


def test_the_terminal_display_stays_away_where_there_is_no_terminal(cli: CommandLine, users: str) -> None:
    assert cli("read", "--connector", users).stderr == ""


def test_debug_logs_what_is_otherwise_left_out(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(
        "import logging, warnings\n"
        "from cdk import Stream\n"
        "class Chatty(Stream):\n"
        "    def read_records(self, slice):\n"
        "        logging.getLogger('x').debug('details')\n"
        "        warnings.warn('old')\n"
        "        yield {}\n"
    )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.filters", [])
        said = [m["log"]["message"] for m in cli("read", "--connector", "chatty.py", "--debug").of_type("LOG")]

    assert "details" in said
    assert any("UserWarning: old" in text for text in said)


def test_a_failed_read_ends_with_a_fatal_line_and_an_error_and_code_1(
    cli: CommandLine, users: str, tmp_path: Path
) -> None:
    (tmp_path / "catalog.json").write_text(
        '{"streams": [{"stream": {"name": "usres", "json_schema": {}}, "sync_mode": "full_refresh"}]}'
    )

    ran = cli("read", "--connector", users, "--catalog", "catalog.json")

    assert ran.code == 1
    fatal, error = ran.messages[-2:]
    assert fatal["log"]["level"] == "FATAL"
    assert error["trace"]["error"]["failure_type"] == "config_error"
    assert "did you mean 'users'?" in error["trace"]["error"]["message"]


def test_a_bad_state_fails_before_anything_is_read(cli: CommandLine, users: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('[{"stream": {"stream_descriptor": {"name": "users"}, "stream_state": [3]}}]')

    ran = cli("read", "--connector", users, "--state", "s.json")

    assert ran.code == 1
    assert [message["type"] for message in ran.messages] == ["LOG", "TRACE"]
    assert ran.messages[-1]["trace"]["error"]["failure_type"] == "config_error"


def test_a_broken_connector_says_where(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "torn.py").write_text("import nothing_of_this_name\n")

    ran = cli("spec", "--connector", "torn.py")

    assert ran.code == 1
    assert "torn.py: cannot be imported: ModuleNotFoundError" in ran.messages[-1]["trace"]["error"]["message"]


@pytest.mark.parametrize(
    "argv",
    [("read",), ("reed",), ("read", "--connector", "x", "--nope"), ("read", "--connector", "x", "--concurrency", "0")],
)
def test_a_command_line_that_is_not_understood_is_code_2_and_leaves_stdout_alone(
    cli: CommandLine, argv: tuple[str, ...]
) -> None:
    ran = cli(*argv)

    assert (ran.code, ran.lines) == (2, [])
    assert "Error: " in ran.stderr


def test_help_is_no_failure(cli: CommandLine) -> None:
    ran = cli("--help")

    assert ran.code == 0
    assert any("discover" in line for line in ran.lines)


class Bundled(Source):
    stream_classes = (Users,)


def test_a_program_made_of_one_connector_needs_no_name_and_offers_none(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        launch(Bundled, ["read"])
    assert ended.value.code == 0
    assert capfd.readouterr().out.count('"RECORD"') == 15

    with pytest.raises(SystemExit):
        launch(Bundled(), ["read", "--help"])
    assert "--connector" not in capfd.readouterr().out


def test_launch_reads_the_arguments_of_the_process(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["bundled", "spec"])

    with pytest.raises(SystemExit):
        launch(Bundled)

    assert json.loads(capfd.readouterr().out)["type"] == "SPEC"


@pytest.mark.parametrize("command", [("check",), ("discover",), ("read", "--catalog", "catalog.json")])
def test_a_connector_that_would_end_the_process_is_an_error_in_words(
    cli: CommandLine, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "exits.py").write_text(
        USERS + "\n    def __init__(self, config=None):\n        raise SystemExit(3)\n", encoding="utf-8"
    )
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "catalog.json").write_text('{"streams": []}', encoding="utf-8")

    ran = cli(*command, "--connector", str(tmp_path / "exits.py"), "--config", "config.json")

    assert ran.code == 1
    assert "the connector ended the process with 3 (sys.exit)" in "".join(ran.lines)


def test_a_cursor_value_that_cannot_be_read_is_named_with_what_is_expected_and_no_secret(
    cli: CommandLine, guarded: str, tmp_path: Path
) -> None:
    (tmp_path / "c.json").write_text('{"api_key": "right-and-secret"}')
    stream = {"stream_descriptor": {"name": "events", "namespace": "log"}, "stream_state": {"seq": "right-and-secret"}}
    (tmp_path / "state.json").write_text(json.dumps([{"type": "STREAM", "stream": stream}]))
    found = cli("discover", "--connector", guarded, "--config", "c.json").messages[-1]["catalog"]["streams"]
    streams = [{"stream": one, "sync_mode": "incremental", "destination_sync_mode": "append"} for one in found]
    (tmp_path / "catalog.json").write_text(json.dumps({"streams": streams}))
    files = ("--config", "c.json", "--catalog", "catalog.json", "--state", "state.json")

    ran = cli("read", "--connector", guarded, *files)

    assert "state of events.seq: found '****', expected an integer" in "".join(ran.lines)
    assert "right-and-secret" not in "".join(ran.lines)


def test_help_has_the_first_sentence_of_each_command_that_is_imported_later() -> None:
    for command in app.LAZY_COMMANDS:
        assert command.help == (command.load().help or "").split("\n\n")[0]
