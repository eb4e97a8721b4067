"""What each view of `spark-cdk ui` costs, of a pipeline with many partitions and runs: python -m benchmarks.ui.pages.

The pipeline is that of the tests, in a folder of its own. Each view is opened twice in the Chromium of the machine; the
second time is printed: the server's CPU, the seconds until the browser had loaded it, its elements and its bytes. Peak
memory is the server's so far.
"""

import argparse
import os
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.cli.ui.browser import chromium, problems, served, size, visit
from tests.cli.ui.large_pipeline import VIEWS, put_many
from tests.cli.ui.shop_folder import put_shop

_LINKS = {"pipeline": ("older runs",), "stream": ("the next ones", "older commits")}
"""Links of views that lead to others, which are measured, too."""
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print a row for each view."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument(
        "--folder", type=Path, help="use the pipeline in this folder, which is made where it is missing"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (chosen.folder or Path(temporary) / "shop").resolve()
        if not folder.exists():
            folder.mkdir(parents=True)
            with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                put_many(put_shop(folder, patch), partitions=chosen.partitions, runs=chosen.runs)
        print(f"{chosen.partitions:,} partitions, {chosen.runs:,} runs")
        _print("view", "server CPU", "loaded", "nodes", "answer", "peak memory")
        with served(folder) as (address, server), chromium() as browser:
            visit(browser, address)
            for name, path in VIEWS.items():
                there = address.partition("/?")[0] + path
                _measure(browser, server, name, there)
                for link in _LINKS.get(name, ()):
                    visit(browser, there)
                    for found in browser.find_elements(By.LINK_TEXT, link):
                        _measure(browser, server, link, str(found.get_property("href")))
            if wrong := problems(browser):
                raise SystemExit("\n".join(wrong))


def _measure(browser: Chrome, server: int, name: str, address: str) -> None:
    visit(browser, address)
    browser.get("about:blank")
    before = _cpu(server)
    visit(browser, address)
    cpu = _cpu(server) - before
    nodes, bytes_, seconds = size(browser)
    _print(name, f"{cpu:.2f} s", f"{seconds:.2f} s", f"{nodes:,}", f"{bytes_:,} B", f"{_peak(server)} MB")


def _cpu(process: int) -> float:
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS


def _peak(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def _print(*cells: str) -> None:
    widths: Sequence[int] = (15, 12, 10, 8, 12, 12)
    print(*(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), flush=True)


if __name__ == "__main__":
    main()
