"""`spark-cdk preview`."""

import json
import sys
from io import StringIO
from pathlib import Path
from textwrap import dedent

import pytest

from cdk.cli.app import launch
from tests.cli.conftest import USERS, CommandLine

API = dedent("""
    from cdk import ConfigError, Source
    from cdk.rest import Bearer, HttpStream, PageNumber
    from cdk.testing import MockApi

    api = MockApi()
    api.get("/users", params={"page": 1}).returns(json={"data": [{"id": 1, "name": "Ada"}, {"id": 2, "by": "hunter2"}]})
    api.get("/users", params={"page": 2}).returns(json={"data": [{"id": 3, "tags": ["x", "y"]}]})
    api.get("/broken").returns(status=400, json={"error": "no key hunter2 here"})

    class Users(HttpStream):
        url_base = "https://api.test"
        paginator = PageNumber(size=2)
        records_path = ["data"]
        transport = api

        def path(self, slice):
            return "/" + self.name

        def authenticator(self):
            return Bearer(self.config["key"])

    class Broken(Users):
        pass

    class Api(Source):
        stream_classes = [Users, Broken]
        config_schema = {"properties": {"key": {"type": "string", "airbyte_secret": True}}}
""")


@pytest.fixture
def api(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "api.py").write_text(API)
    (tmp_path / "config.json").write_text('{"key": "hunter2"}')
    return ("--connector", "api.py", "--config", "config.json")


def test_each_request_is_shown_with_its_response_and_what_became_of_it(cli: CommandLine, api: tuple[str, ...]) -> None:
    ran = cli("preview", "users", *api)

    assert ran.code == 0
    assert [line.rstrip() for line in ran.lines[:9]] == [
        "users, page 1",
        "  GET https://api.test/users?page=1",
        "      Authorization: ****",
        ran.lines[3],
        "      content-type: application/json",
        '      {"data":[{"id":1,"name":"Ada"},{"id":2,"by":"****"}]}',
        "  2 records at data",
        '  next page: {"page":2,"page_size":2}, for the page has 2 records, and a full one has 2',
        "users, page 2",
    ]
    assert ran.lines[3].startswith("  200 in 0.")
    assert "  no next page: the page has 1 records, and a full one has 2" in ran.lines
    assert ran.lines[-1] == "users: 3 records, the whole stream; nothing was written"
    assert "hunter2" not in "\n".join(ran.lines)


def test_no_more_pages_are_requested_than_the_records_take(cli: CommandLine, api: tuple[str, ...]) -> None:
    ran = cli("preview", "users", "-n", "1", *api)

    assert "page 2" not in "\n".join(ran.lines)
    assert ran.lines[-1] == "users: 1 record, there may be more; nothing was written"


def test_programs_get_one_document(cli: CommandLine, api: tuple[str, ...]) -> None:
    ran = cli("preview", "users", "--json", "--body", "4", *api)

    shown = json.loads("\n".join(ran.lines))
    assert (shown["format"], shown["stream"], shown["complete"]) == ("spark-cdk-preview/1", "users", True)
    assert shown["records"] == [{"id": 1, "name": "Ada"}, {"id": 2, "by": "****"}, {"id": 3, "tags": ["x", "y"]}]
    first, last = shown["pages"]
    assert first["requests"][0]["request"]["headers"] == {"Authorization": "****"}
    assert first["requests"][0]["response"]["body"] == '{"da…'
    assert (first["path"], first["extracted"], first["next"]["page"], last["next"]) == (["data"], 2, 2, None)


def test_step_by_step_the_next_page_is_requested_when_somebody_wants_it(
    cli: CommandLine, api: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("n\n"))

    ran = cli("preview", "users", "--step", *api)

    assert ran.code == 0
    assert "page 2" not in "\n".join(ran.lines)
    assert any("Ada" in line for line in ran.lines)


def test_a_failure_is_shown_behind_what_was_sent_and_is_the_exit_code(cli: CommandLine, api: tuple[str, ...]) -> None:
    ran = cli("preview", "broken", *api)

    assert ran.code == 1
    assert "  GET https://api.test/broken?page=1" in ran.lines
    assert "no key **** here" in "\n".join(ran.lines)
    assert "hunter2" not in "\n".join(ran.lines) + ran.stderr


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (("usres",), 1, "the source has no stream 'usres'; did you mean 'users'?"),
        (("users", "--step", "--json"), 2, "pass one"),
        (("users", "--state", "none.json"), 1, "none.json: cannot be read"),
    ],
)
def test_what_cannot_be_previewed_is_refused_with_the_reason(
    cli: CommandLine, api: tuple[str, ...], argv: tuple[str, ...], code: int, text: str
) -> None:
    ran = cli("preview", *argv, *api)

    assert (ran.code, text in ran.stderr) == (code, True)


def test_a_preview_resumes_from_a_state(cli: CommandLine, users: str, tmp_path: Path) -> None:
    state = {"stream_descriptor": {"name": "users"}, "stream_state": {"page": 2}}
    (tmp_path / "state.json").write_text(json.dumps([{"type": "STREAM", "stream": state}]))

    ran = cli("preview", "users", "--connector", users, "--state", "state.json", "--json")

    assert [record["id"] for record in json.loads("\n".join(ran.lines))["records"]] == [4, 5]


def test_the_program_of_one_connector_has_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, type] = {}
    exec(f"{USERS}\nfrom cdk import Source\nclass One(Source): stream_classes = [Users]", names)  # noqa: S102 - a program

    with pytest.raises(SystemExit) as ended:
        launch(names["One"], ["preview", "users", "-n", "2"])

    assert ended.value.code == 0
    assert "an interrupted read resumes at" in capsys.readouterr().out


def test_fields_that_the_terminal_has_no_room_for_are_named(
    cli: CommandLine, users: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    (tmp_path / users).write_text(
        USERS.replace('{"id": n * 2}', '{"id": 1, "text": "long " * 9, "more": None, "z": 1}')
    )

    ran = cli("preview", "users", "--connector", users, "-n", "1")

    assert "further fields: text, more, z" in ran.lines


def test_half_a_character_is_shown_as_an_escape(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "halves.py").write_text(
        "from cdk import Stream\nclass Halves(Stream):\n    def read_records(self, slice):\n"
        r'        yield {"id": "half \ud83d", "more": {"\ude00": 1}}'
    )

    shown = cli("preview", "halves", "--connector", "halves.py")
    answer = cli("preview", "halves", "--connector", "halves.py", "--json")

    # Versions of rich differ in the width of the column.
    assert r'half \ud83d  {"\ude00":1}' in [line.strip() for line in shown.lines]
    assert json.loads("\n".join(answer.lines))["records"] == [{"id": "half \ud83d", "more": {"\ude00": 1}}]
