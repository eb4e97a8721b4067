"""Running the command line in this process: what it wrote to file descriptor 1, and its exit code."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import TypeAlias

import pytest

from cdk import Source
from cdk.base.values import Json
from cdk.cli.app import run


@dataclass(frozen=True)
class Ran:
    """What one run of the command line did."""

    code: int
    lines: list[str]
    stderr: str

    @property
    def messages(self) -> list[Json]:
        return [json.loads(line) for line in self.lines]

    def of_type(self, name: str) -> list[Json]:
        return [message for message in self.messages if message["type"] == name]


CommandLine: TypeAlias = Callable[..., Ran]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Runs the command line in an empty directory; `source`: the one connector of the program."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def run_it(*argv: str, source: Source | None = None) -> Ran:
        capfd.readouterr()
        code = run(argv, source)
        told = capfd.readouterr()
        return Ran(code, told.out.splitlines(), told.err)

    return run_it


def at_terminal(path: Path, *argv: str) -> tuple[bytes, str]:
    """What a process of the command line prints, and what it shows at the terminal, which is standard error alone."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "cdk", *argv]
    done = subprocess.run(command, cwd=path, stdout=subprocess.PIPE, stderr=theirs, check=False)
    os.close(theirs)
    # It gives what it has in parts, and its end as an error.
    shown = b"".join(iter(lambda: _part(ours), b"")).decode()
    os.close(ours)
    return done.stdout, shown


def _part(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


USERS = dedent("""
    from cdk import Page, PagedStream

    class Users(PagedStream):
        primary_key = "id"

        def read_page(self, slice, token):
            n = token["page"] if token else 0
            return Page([{"id": n * 2}, {"id": n * 2 + 1}], {"page": n + 1} if n < 2 else None)
""")

GUARDED = dedent("""
    import logging
    from cdk import CountCursor, CredentialsError, Source, Stream

    class Events(Stream):
        cursor = CountCursor("seq")
        namespace = "log"

        def read_records(self, slice):
            logging.getLogger("guarded").warning("using %s", self.config["api_key"])
            print("this must not get between the lines")
            yield {"seq": 1}

    class Guarded(Source):
        stream_classes = [Events]
        documentation_url = "https://example.com/docs"
        config_schema = {
            "type": "object",
            "required": ["api_key"],
            "properties": {
                "api_key": {"type": "string", "minLength": 3, "airbyte_secret": True},
                "pages": {"type": "integer", "maximum": 9},
            },
        }

        def check(self, config):
            if config["api_key"] != "right":
                raise CredentialsError(f"the source refused the key {config['api_key']}")
""")


@pytest.fixture
def users(tmp_path: Path) -> str:
    """A file with one stream and nothing else."""
    (tmp_path / "users.py").write_text(USERS)
    return "users.py"


@pytest.fixture
def guarded(tmp_path: Path) -> str:
    """A file with a source that has a secret, a check and an incremental stream."""
    (tmp_path / "guarded.py").write_text(GUARDED)
    return "guarded.py"
