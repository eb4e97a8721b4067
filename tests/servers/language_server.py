"""The YAML language server that editors run, spoken to as an editor does: what it says of a file, what it offers."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO

import pytest

from cdk.base.values import Json
from tests.servers.node import node

_MODULES = Path(sys.prefix) / "yaml-language-server" / "node_modules"
_PROGRAM = _MODULES / "yaml-language-server" / "bin" / "yaml-language-server"

needs_language_server = pytest.mark.skipif(
    not _PROGRAM.exists(),
    reason=f"not installed: npm install --prefix {sys.prefix}/yaml-language-server yaml-language-server@1.19.2",
)


class Editor:
    """An editor that has a folder open, with its settings."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path, settings: Mapping[str, Json]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to: IO[bytes] = process.stdin
        self._from: IO[bytes] = process.stdout
        # Or it looks for schemas on the internet.
        own = {"schemaStore": {"enable": False}, "validate": True, "hover": True, "completion": True}
        self._folder, self._numbers = folder, count(1)
        self._settings = {**settings, "yaml": {**own, **settings.get("yaml", {})}}
        root = {"uri": folder.as_uri(), "name": folder.name}
        abilities = {"workspace": {"configuration": True, "workspaceFolders": True}}
        asked = {"processId": None, "rootUri": root["uri"], "workspaceFolders": [root], "capabilities": abilities}
        self._ask("initialize", asked)
        self._say("initialized", {})
        # It reads a file without its schema until it knows the settings.
        while self._next().get("method") != "workspace/configuration":
            pass

    def problems(self, name: str, text: str) -> list[str]:
        """What is underlined in a file, as `line: message`, lines from 1."""
        with self._open(name, text) as uri:
            return [f"{each['range']['start']['line'] + 1}: {each['message']}" for each in self._diagnostics(uri)]

    def offered(self, name: str, text: str) -> list[str]:
        """What completes the text of a file at its end."""
        lines = text.split("\n")
        position = {"line": len(lines) - 1, "character": len(lines[-1])}
        with self._open(name, text) as uri:
            completion = self._ask("textDocument/completion", {"textDocument": {"uri": uri}, "position": position})
            return [item["label"] for item in completion["items"]]

    def explained(self, name: str, text: str, word: str) -> str:
        """What is shown where the pointer rests on the first such word of a file."""
        line, column = next((i, row.index(word)) for i, row in enumerate(text.split("\n")) if word in row)
        position = {"line": line, "character": column}
        with self._open(name, text) as uri:
            hover = self._ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": position})
            return str(hover["contents"]["value"])

    @contextmanager
    def _open(self, name: str, text: str) -> Iterator[str]:
        uri = (self._folder / name).as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": next(self._numbers), "text": text}
        self._say("textDocument/didOpen", {"textDocument": document})
        yield uri
        self._say("textDocument/didClose", {"textDocument": {"uri": uri}})
        # Nothing is underlined in a file that is closed, which the server says, too.
        while self._diagnostics(uri):
            pass

    def _diagnostics(self, uri: str) -> list[Json]:
        while True:
            message = self._next()
            if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri:
                found: list[Json] = message["params"]["diagnostics"]
                return found

    def close(self) -> None:
        self._ask("shutdown", None)
        self._say("exit", None)

    def _ask(self, method: str, params: Json) -> Json:
        number = next(self._numbers)
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._next()
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message["error"]
                return message["result"]

    def _say(self, method: str, params: Json) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: Mapping[str, Json]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._to.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._to.flush()

    def _next(self) -> Json:
        """The next message; a question of the server is answered first."""
        length = 0
        while (line := self._from.readline().strip()) or not length:
            if found := re.fullmatch(rb"Content-Length: (\d+)", line):
                length = int(found[1])
            else:
                assert line, "the language server has ended"
        message = json.loads(self._from.read(length))
        if "method" in message and "id" in message:
            result = None
            if message["method"] == "workspace/configuration":
                result = [self._settings.get(item["section"]) for item in message["params"]["items"]]
            self._send({"id": message["id"], "result": result})
        return message


@contextmanager
def editor(folder: Path, settings: Mapping[str, Json]) -> Iterator[Editor]:
    """An editor on `folder`, until the block ends. settings: by section, such as `yaml`."""
    command = [node(), str(_PROGRAM), "--stdio"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            opened = Editor(process, folder, settings)
            yield opened
            opened.close()
        finally:
            process.kill()
