"""Programs of others that serve on a port which the system picks, for as long as a test needs them."""

import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def serving(command: Sequence[str], listens: str, stop: signal.Signals = signal.SIGTERM) -> Iterator[str]:
    """Run a server until the block ends. listens: a pattern of the line of its log that has the address in a group."""
    with (
        ThreadPoolExecutor(1) as pool,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            log = []
            for line in process.stdout:
                log.append(line)
                if found := re.search(listens, line):
                    # What it still has to say would fill the pipe, and it would neither answer nor end.
                    pool.submit(process.stdout.read)
                    yield found[1]
                    break
            else:
                raise AssertionError(f"{command[0]} did not start:\n{''.join(log)}")
        finally:
            process.send_signal(stop)
