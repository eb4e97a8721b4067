"""How long `spark-cdk read` takes where each request waits: an API on this machine, and one request a partition.

    python benchmarks/concurrency.py [--requests 2000] [--seconds 0.05] [--capacity N] [--limit N] [TREE ...]

capacity: requests that the API answers at once, beyond which they queue. limit: those beyond which it says 429. Each
tree is a folder with a `cdk`; they take turns with the default, with one slice at a time and with ten.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONNECTOR = """
from cdk import Partition, Source
from cdk.rest import HttpStream


class Items(HttpStream):
    primary_key = "id"

    @property
    def url_base(self):
        return self.config["url"]

    def partitions(self):
        return (Partition({"n": n}) for n in range(self.config["requests"]))

    def path(self, slice):
        return f"/items/{slice.partition['n']}"


class Api(Source):
    name = "api"
    stream_classes = (Items,)
"""


class Api:
    """Answers after `seconds`; `capacity` at once, and 429 beyond `limit`."""

    def __init__(self, seconds: float, capacity: int, limit: int) -> None:
        self._seconds, self._turns, self._limit = seconds, asyncio.Semaphore(capacity), limit
        self.at_once = self.most = self.refused = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.at_once += 1
                self.most = max(self.most, self.at_once)
                if self.at_once > self._limit:
                    self.refused += 1
                    head, body = "429 Too Many Requests\r\nRetry-After: 1", b"{}"
                else:
                    async with self._turns:
                        await asyncio.sleep(self._seconds)
                    head, body = "200 OK", b'[{"id": 1, "name": "one"}]'
                self.at_once -= 1
                writer.write(f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def main() -> None:
    """Print what each read took, and what the API saw of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--capacity", type=int, default=1_000)
    parser.add_argument("--limit", type=int, default=1_000)
    parser.add_argument("--ways", nargs="*", default=["default", "1", "10"])
    parser.add_argument("trees", nargs="*", default=[str(Path(__file__).parents[1])])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "api.py").write_text(CONNECTOR)
        for way in args.ways:
            for tree in args.trees:
                api = Api(args.seconds, args.capacity, args.limit)
                server = await asyncio.start_server(api.serve, "127.0.0.1", 0)
                port = server.sockets[0].getsockname()[1]
                (Path(folder) / "config.yaml").write_text(f"url: http://127.0.0.1:{port}\nrequests: {args.requests}\n")
                options = [] if way == "default" else ["--concurrency", way]
                wall, before = time.monotonic(), os.times()
                process = await asyncio.create_subprocess_exec(
                    *(
                        sys.executable,
                        "-m",
                        "cdk",
                        "read",
                        "--connector",
                        "api.py",
                        "--config",
                        "config.yaml",
                        *options,
                    ),
                    cwd=folder,
                    env={**os.environ, "PYTHONPATH": tree},
                    stdout=subprocess.DEVNULL,
                )
                assert await process.wait() == 0
                wall, after = time.monotonic() - wall, os.times()
                cpu = after.children_user + after.children_system - before.children_user - before.children_system
                print(
                    f"{tree} {way}: {wall:.1f} s, CPU {cpu:.2f} s, {api.most} at once, {api.refused} refused",
                    flush=True,
                )
                server.close()


if __name__ == "__main__":
    asyncio.run(main())
