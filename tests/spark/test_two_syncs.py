"""Two syncs of one pipeline at once, on one machine and as if on two."""

import os
import signal
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

from connectors.shop.api import serving
from connectors.shop.backend import Backend, Sizes
from tests.spark.kill import Trial
from tests.spark.kill_places import LATENCY, LOCAL


def wait_for_rows(trial: Trial, process: subprocess.Popen[bytes]) -> None:
    while not trial.rows_now():
        assert process.poll() is None, "the sync ended before it had committed anything"
        threading.Event().wait(0.05)


def test_the_second_is_refused_and_a_paused_one_that_wakes_up_commits_nothing(tmp_path: Path) -> None:
    backend = Backend(Sizes(products=1000, orders=1000, customers=10, visits=60))
    # The first has most to read yet when it is paused.
    latencies = [8 * LATENCY]
    with serving(backend, latency=lambda: latencies[-1]) as address:
        trial = Trial(tmp_path, backend, address, place=replace(LOCAL, start="never"))
        with trial.process() as first:
            wait_for_rows(trial, first)
            # A paused machine, where the sync holds its lock all the same.
            os.killpg(first.pid, signal.SIGSTOP)
            latencies.append(LATENCY)
            refused = subprocess.run(trial.command(), check=False, capture_output=True, text=True)
            assert refused.returncode == 75
            assert "another sync of the pipeline 'kill' is running" in refused.stderr
            assert f"process {first.pid}" in refused.stderr

            # Another machine takes over its work: there the lock does not reach.
            for name in ("kill.lock", "kill.sync"):
                (tmp_path / "tables" / "_cdk" / name).unlink()
            trial.sync_here("orders", "visits")
            taken_over = {stream: trial.rows(stream) for stream in ("orders", "visits")}
            os.killpg(first.pid, signal.SIGCONT)
            code = first.wait()

    assert code == 1
    assert "another run moved this stream's state" in trial.log()
    for stream, rows in taken_over.items():
        assert trial.rows(stream) == rows
        assert len(set(rows)) == len(rows) == backend.stats()[stream]["records"]
