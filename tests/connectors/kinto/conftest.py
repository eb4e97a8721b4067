"""A real Kinto server, empty at the start of each test."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest
import requests

from cdk import Json

USER, PASSWORD = "reader", "correct horse battery"
BATCH = 25


class Server:
    """What a test does to a Kinto: write, change, delete."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def open_account(self) -> None:
        self._send("PUT", f"/accounts/{USER}", {"data": {"password": PASSWORD}})
        self._session.auth = (USER, PASSWORD)

    def empty(self) -> None:
        """Delete all buckets. Kinto forgets what was in them, and shows this user no tombstones of buckets."""
        self._send("DELETE", "/buckets")

    def put(self, path: str, data: Mapping[str, Json] | None = None, **permissions: Sequence[str]) -> int:
        """Create or replace an object; its `last_modified`."""
        written = self._send("PUT", f"/buckets/{path}", {"data": data or {}, "permissions": permissions})
        return int(written["last_modified"])

    def put_records(self, collection: str, count: int) -> None:
        """Write the records r000, r001, ... into "bucket/collection", creating both."""
        bucket, name = collection.split("/")
        self.put(bucket)
        self.put(f"{bucket}/collections/{name}")
        path = f"/v1/buckets/{bucket}/collections/{name}/records"
        writes = [{"method": "PUT", "path": f"{path}/r{n:03}", "body": {"data": {"n": n}}} for n in range(count)]
        for i in range(0, count, BATCH):
            self._send("POST", "/batch", {"requests": writes[i : i + BATCH]})

    def delete(self, path: str) -> int:
        """Delete an object; the `last_modified` of its tombstone."""
        return int(self._send("DELETE", f"/buckets/{path}")["last_modified"])

    def _send(self, method: str, path: str, body: Json = None) -> Json:
        response = self._session.request(method, self.url + path, json=body, timeout=30)
        response.raise_for_status()
        return response.json().get("data")


@pytest.fixture(scope="session")
def _running() -> Iterator[Server]:
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("serve.py"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        # Ends with an empty line should the server die before it listens.
        port = process.stdout.readline().strip()
        assert port, f"Kinto did not start; {' '.join(command)} says why"
        try:
            with Server(f"http://127.0.0.1:{int(port)}/v1") as server:
                server.open_account()
                yield server
        finally:
            process.terminate()


@pytest.fixture
def kinto(_running: Server) -> Server:
    _running.empty()
    return _running


@pytest.fixture
def config(kinto: Server) -> dict[str, Json]:
    return {"server": kinto.url, "auth": {"type": "basic", "username": USER, "password": PASSWORD}, "page_size": 3}
