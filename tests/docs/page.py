"""Plays a page of the docs: writes its files, runs its commands and programs, compares what they say.

A block whose first line is `# FILE` or `# FILE, continued` is a file. A `bash` block is run, and so is a `python` block
that is no file; those of one page share their names. A `text` block is what the block before it says, with `...` for
anything in a line. Blocks of other kinds are for the eye.
"""

import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from cdk.cli.app import run

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.\w+)(, continued)?\n")
HERE = re.compile(r"(spark-cdk (sync [^;]*|[a-z ]*--help)\n)+")
"""Commands that need no process of their own."""
WRITTEN = "http://127.0.0.1:8000"
"""Where pages say that the demo shop's API answers."""

BIN = Path(sys.executable).parent
# A wheel is built with the setuptools that is installed: no network.
OFFLINE = {"PIP_NO_BUILD_ISOLATION": "false", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
ENVIRONMENT = {
    **os.environ,
    **OFFLINE,
    "PATH": f"{BIN}:{os.environ['PATH']}",
    "COLUMNS": "160",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}


def play(page: Path, folder: Path, address: str) -> None:
    """Play a page in `folder`, with the shop at `address`. Raises AssertionError: it does not do what it says."""
    said = ""
    names: dict[str, Any] = {"__name__": page.stem}
    for kind, text in BLOCK.findall(page.read_text()):
        block = text.replace(WRITTEN, address)
        if (header := FILE.match(block)) and kind in {"python", "yaml", "toml"}:
            (folder / header[1]).parent.mkdir(exist_ok=True)
            with (folder / header[1]).open("a" if header[2] else "w") as file:
                file.write(block)
        elif kind == "bash":
            said = _here(block) if HERE.fullmatch(block) else _shell(block, folder)
        elif kind == "python":
            said = _python(block, names)
        elif kind == "text":
            assert says(said, block), f"{page.name}: expected\n{block}\nfound\n{said}"


def says(said: str, block: str) -> bool:
    """Whether a text holds a `text` block; how many blanks there are between two words does not count."""
    lines = [re.escape(line).replace(re.escape("..."), ".*") for line in _words(block.strip())]
    return re.search("\n".join(lines), "\n".join(_words(said))) is not None


def _words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def _shell(block: str, folder: Path) -> str:
    answer = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", block],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, f"{block}\n{answer.stdout}"
    return answer.stdout


def _python(block: str, names: dict[str, Any]) -> str:
    with redirect_stdout(StringIO()) as said:
        exec(compile(block, "block", "exec"), names)  # noqa: S102 - the page's own program
    return said.getvalue()


def _here(block: str) -> str:
    """Run commands in this process: a sync takes over its Spark session, and a page of help needs none of its own."""
    with redirect_stdout(StringIO()) as said, redirect_stderr(said):
        for line in block.splitlines():
            assert run(shlex.split(line)[1:]) == 0, f"{line}\n{said.getvalue()}"
    return said.getvalue()
