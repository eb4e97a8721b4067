"""`spark-cdk mcp`, as a client of the protocol sees it."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import responses
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import TextContent

from cdk.cli.app import run
from cdk.cli.mcp.server import server
from tests.docs.page import DOCS
from tests.local_server import QuietHandler, answering

TOKEN = "tok-5f2d91c07b"


class Api(QuietHandler):
    """Five items, two a page, for who has the token; it repeats the token where nobody expects it."""

    def do_GET(self) -> None:  # noqa: N802 - as http.server calls it
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self.answer(401, b'{"error": "no"}')
        dates = [f"2024-01-0{n + 1}T00:00:00Z" for n in range(5)]
        items = [{"id": n, "name": f"{n} of {TOKEN}", "updated_at": at, "size": n} for n, at in enumerate(dates)]
        since = [item for item in items if str(item["updated_at"]) >= query["updated_since"]]
        first = 2 * int(query["page"]) - 2
        return self.answer(
            200, json.dumps({"items": since[first : first + 2]}).encode(), {"Content-Type": "application/json"}
        )


class Session:
    """A client of the server of a folder. heard: all that it was answered."""

    def __init__(self, client: Client) -> None:
        self._client, self.heard = client, ""

    async def call(self, tool: str, **arguments: object) -> Any:
        """What a tool answers, by its output schema; the text of an error."""
        result = await self._client.call_tool(tool, arguments)
        text = "".join(part.text for part in result.content if isinstance(part, TextContent))
        self.heard += text + json.dumps(result.structured_content)
        return text if result.is_error else result.structured_content


def talk(folder: Path, conversation: Callable[[Session], Awaitable[None]], *, trusted: bool = False) -> str:
    """All that was answered in a conversation."""

    async def talking() -> str:
        async with Client(server(folder, trusted=trusted)) as client:
            session = Session(client)
            await conversation(session)
            return session.heard

    return asyncio.run(talking())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def address() -> Iterator[str]:
    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Api)) as api:
        yield f"http://127.0.0.1:{api.server_port}"


def test_an_assistant_builds_a_connector_and_sees_no_secret(folder: Path, address: str) -> None:
    manifest = folder / "things" / "manifest.yaml"

    async def conversation(session: Session) -> None:
        made = await session.call("new", name="things")
        assert "things/manifest.yaml" in made["files"]
        (folder / "things" / "config.json").write_text('{"token": "${THINGS_TOKEN}"}')
        (folder / "things" / ".env").write_text(f"THINGS_TOKEN={TOKEN}\n")
        here = {"connector": "things/manifest.yaml", "config": "things/config.json"}

        text = (
            manifest.read_text().replace("https://api.example.com", address).replace("page_size: 100", "page_size: 2")
        )
        manifest.write_text(text.replace("field_path: [items]", "feild_path: [items]"))
        (mistaken,) = (await session.call("validate", files=["things/manifest.yaml"]))["files"]
        assert "did you mean 'field_path'" in mistaken["errors"][0]["message"]
        assert mistaken["errors"][0]["line"] == 1 + text[: text.index("field_path")].count("\n")

        manifest.write_text(text)
        valid = await session.call("validate", files=["things/manifest.yaml", "things/config.json"])
        assert valid["valid"], valid
        seen = await session.call("preview", **here, stream="items", records=3)
        assert [record["id"] for record in seen["records"]] == [0, 1, 2]
        assert seen["records"][0]["name"] == "0 of ****"
        assert [page["extracted"] for page in seen["pages"]] == [2, 2]
        assert (await session.call("infer", **here, stream="items"))["undeclared"] == ["size"]

        proven = await session.call("prove", **here, kills=1)
        assert (proven["proven"], proven["rows"]) == (True, {"items": 5}), proven
        pipeline = folder / "things" / "pipeline.yaml"
        pipeline.write_text(pipeline.read_text() + "spark: {start: never}\n")
        (planned,) = (await session.call("plan", pipeline="things/pipeline.yaml"))["streams"]
        assert (planned["sync_mode"], planned["error"]) == ("incremental", None)
        assert (planned["changes"], planned["expected_rows"]) == ([], None)
        assert run(["sync", "things/pipeline.yaml"]) == 0
        (standing,) = (await session.call("state", pipeline="things/pipeline.yaml"))["streams"]
        assert standing["rows"] == 5
        assert standing["positions"] == ["updated_at: 2024-01-05T00:00:00Z"]

    assert TOKEN not in talk(folder, conversation)


def test_no_path_leaves_the_folder(folder: Path) -> None:
    outside = folder.parent / "outside.yaml"
    outside.write_text("version: 6.0.0")
    (folder / "link.yaml").symlink_to(outside)
    (folder / "pipeline.yaml").write_text("{source: {manifest: ../outside.yaml}, target: {path: tables}, name: x}")

    async def conversation(session: Session) -> None:
        for path in ("../outside.yaml", str(outside), "link.yaml", "pipeline.yaml"):
            assert "is outside of the folder" in await session.call("validate", files=[path])
        assert "is outside of the folder" in await session.call("new", name="things", folder="../things")
        assert "is outside of the folder" in await session.call("new", name="things", openapi="../outside.yaml")
        assert "is outside of the folder" in await session.call("plan", pipeline="pipeline.yaml")
        assert "is outside of the folder" in await session.call("prove", connector="link.yaml", cassette="../c.yaml")

    talk(folder, conversation)


def test_a_description_of_an_api_becomes_a_draft_whose_guesses_are_listed(folder: Path) -> None:
    items = {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}}
    listing = {"responses": {"200": {"description": "", "content": {"application/json": {"schema": items}}}}}
    description = {"openapi": "3.0.0", "servers": [{"url": "https://api.test"}], "paths": {"/things": {"get": listing}}}
    (folder / "api.json").write_text(json.dumps({"info": {"title": "", "version": "1"}, **description}))

    async def conversation(session: Session) -> None:
        drafted = await session.call("new", name="things", openapi="api.json")
        assert drafted["notes"][0] == "## What was guessed"
        again = await session.call(
            "new", name="calls", curl=f"curl -H 'Authorization: Bearer {TOKEN}' https://api.test/x"
        )
        with responses.RequestsMock() as api:
            api.get("https://api.test/y", json=[{"id": 1}, {"id": 2}], headers={"X-Echo": TOKEN})
            curl = f"curl -H 'Authorization: Bearer {TOKEN}' https://api.test/y"
            sent = await session.call("new", name="sent", curl=curl, send=True)
        assert any(note.startswith("- primary key `id`") for note in sent["notes"])
        for made in (drafted, again, sent):
            files = [f"{made['folder']}/manifest.yaml"]
            assert (await session.call("validate", files=files))["valid"]

    assert TOKEN not in talk(folder, conversation)


CONNECTOR = """
from cdk import Stream

class Things(Stream):
    def read_records(self, slice):
        note = "the key is " + self.config["api_key"]
        yield {"id": 1, "api_key": "from the source", "note": note, "half \\ud83d": "\\ude00"}

class Failing(Stream):
    def read_records(self, slice):
        raise RuntimeError("cannot log in with " + self.config["api_key"])
"""


def test_a_connector_in_python_runs_only_where_the_user_says_so(folder: Path) -> None:
    (folder / "talkative.py").write_text(CONNECTOR)
    (folder / "config.json").write_text(json.dumps({"api_key": TOKEN}))
    here = {"connector": "talkative.py", "config": "config.json"}

    async def refused(session: Session) -> None:
        assert "--allow-custom-code" in await session.call("preview", **here, stream="things")

    async def run_it(session: Session) -> None:
        assert (await session.call("preview", **here, stream="things"))["records"] == [
            {"id": 1, "api_key": "****", "note": "the key is ****", r"half \ud83d": r"\ude00"}
        ]
        (page,) = (await session.call("preview", **here, stream="failing"))["pages"]
        assert "cannot log in with ****" in page["error"]
        failed = await session.call("infer", **here, stream="failing")
        assert "cannot log in with ****" in failed
        assert "did you mean 'things'" in await session.call("preview", **here, stream="thing")

    talk(folder, refused)
    assert TOKEN not in talk(folder, run_it, trusted=True)


def test_each_tool_says_what_it_takes_and_gives(folder: Path) -> None:
    async def listed() -> None:
        async with Client(server(folder, trusted=False)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == ["new", "validate", "plan", "state", "preview", "infer", "prove"]
            assert all(tool.description and len(tool.description) < 200 for tool in tools.values())
            assert all("next" in (tool.output_schema or {})["properties"] for tool in tools.values())
            assert "Path of a manifest" in str(tools["preview"].input_schema)

    asyncio.run(listed())


def test_the_settings_of_the_page_start_a_server_that_prints_do_not_disturb(folder: Path) -> None:
    (folder / "talkative.py").write_text(CONNECTOR.replace("raise", 'print("not", self.config["api_key"]); raise'))
    (folder / "config.json").write_text(json.dumps({"api_key": TOKEN}))
    page = (DOCS / "how-to" / "build-with-an-assistant.md").read_text()
    settings = [json.loads(block) for block in re.findall(r"^```json\n(.+?)```", page, re.MULTILINE | re.DOTALL)]
    assert settings[0]["mcpServers"]["spark-cdk"] == {"command": "spark-cdk", "args": ["mcp"]}
    assert settings[1]["servers"]["spark-cdk"] == {"type": "stdio", "command": "spark-cdk", "args": ["mcp"]}
    argv = ["-m", "cdk", "mcp", "--allow-custom-code"]
    command = StdioServerParameters(command=sys.executable, args=argv, env={**os.environ})

    async def talking() -> str:
        with (folder / "log").open("w") as log:
            async with Client(stdio_client(command, errlog=log)) as client:
                session = Session(client)
                here = {"connector": "talkative.py", "config": "config.json"}
                (page,) = (await session.call("preview", **here, stream="failing"))["pages"]
                assert "RuntimeError" in page["error"]
                return session.heard

    assert TOKEN not in asyncio.run(talking())
    assert (folder / "log").read_text() == f"not {TOKEN}\n"


def test_without_the_package_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "cdk.cli.mcp.server")
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)

    assert run(["mcp"]) == 1
    assert capsys.readouterr().err == "Error: the package `mcp` is missing: pip install 'spark-cdk[mcp]'\n"
