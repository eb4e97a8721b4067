import os
import re
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL

import pytest
from deltalake import DeltaTable

from connectors.shop.api import serving
from connectors.shop.backend import Backend

TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorial" / "index.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.mark.spark
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    said = ""
    with serving(Backend()) as address:
        for kind, text in BLOCK.findall(TUTORIAL.read_text()):
            block = text.replace("http://127.0.0.1:8000", address)
            if kind in {"python", "yaml"}:
                write(tmp_path, block)
            elif kind == "bash" and block.startswith("CDK_CRASH_AT="):
                killed(tmp_path, block)
            elif kind == "bash":
                said = run(tmp_path, block)
                # The sync that follows the kill goes on from what was committed before it.
                assert not block.startswith("spark-cdk sync") or "resumed" in said
            elif kind == "text":
                expected = re.escape(block.strip()).replace(re.escape("..."), ".*")
                assert re.search(expected, said), f"expected {block}, found {said}"


def write(folder: Path, block: str) -> None:
    """A block whose first line names the file it is, or the file it continues."""
    header = re.match(r"# (\S+?)(, continued)?\n", block)
    assert header is not None
    with (folder / header[1]).open("a" if header[2] else "w") as file:
        file.write(block)


def run(folder: Path, block: str) -> str:
    answer = shell(folder, block)
    assert answer.returncode == 0, f"{block}\n{answer.stdout}\n{answer.stderr}"
    return answer.stdout


def killed(folder: Path, block: str) -> None:
    """A sync that is killed as soon as a table has its first commit."""
    answer = shell(folder, block)
    assert answer.returncode in {-SIGKILL, 128 + SIGKILL}, f"{block}\n{answer.stdout}\n{answer.stderr}"
    tables = (DeltaTable(str(log.parent)) for log in folder.glob("tables/*/_delta_log"))
    assert sum("spark-cdk.state" in commit for table in tables for commit in table.history()) == 1


def shell(folder: Path, block: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/bash", "-c", block],
        cwd=folder,
        env={**os.environ, "PATH": PATH, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=False,
    )
