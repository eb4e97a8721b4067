"""The bench's API, running. A folder of its own has it, with hand-written limits and the peers' programs."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STARTS = 30


@contextmanager
def serving(bench: Path, python: Path, scratch: Path) -> Iterator[str]:
    """Run the server and give its address; a path segment behind it chooses the data set. python: has uvloop.

    Raises RuntimeError: it does not start.
    """
    told = scratch / "port"
    with (scratch / "server.log").open("wb") as log:
        server = subprocess.Popen([python, bench / "server.py", "--port-file", told], stdout=log, stderr=log)
        try:
            for _ in range(_STARTS * 20):
                if told.exists():
                    break
                try:
                    server.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue
                raise RuntimeError(f"the server ended: see {log.name}")
            yield f"http://127.0.0.1:{told.read_text(encoding='ascii')}"
        finally:
            server.terminate()
            server.wait()


def environment(folder: Path, *packages: str) -> Path:
    """The Python of a virtual environment, which is made with `packages` when it is absent."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"making {folder} with {', '.join(packages)} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "-qq", "install", *packages], check=True)
    return python
