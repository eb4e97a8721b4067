import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
            elif kind == "bash":
                said = run(tmp_path, block)
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
    answer = subprocess.run(
        ["/bin/bash", "-c", block],
        cwd=folder,
        env={**os.environ, "PATH": PATH, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=False,
    )
    killed = "-s KILL" in block
    assert answer.returncode == 0 or killed, f"{block}\n{answer.stdout}\n{answer.stderr}"
    return answer.stdout
