"""Records the cassettes of connectors anew: `python -m tests.connectors.record_cassettes`.

Each is read from a real server with a few rows, which is started here.
"""

import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cdk import Json
from cdk.sources.discovery import find_source
from cdk.testing.cassettes import record
from cdk.testing.cassettes.interactions import save
from tests.connectors.kinto.conftest import PASSWORD, USER, Server
from tests.servers.buildbot import building
from tests.servers.process import serving
from tests.servers.test_datasette import served
from tests.servers.test_prometheus import Database, config_of

CONNECTORS = Path(__file__).parents[2] / "connectors"
TABLES = """
create table notes (id integer primary key, version integer, body text, stars real);
insert into notes values (1, 9, 'one', 1.5), (2, 4, 'two', null), (3, 5, 'three', 3), (4, 6, '', 4), (5, 9, null, 5);
create table authors (name text primary key, joined text);
insert into authors values ('ann', '2024-01-01'), ('bob/2', '2024-01-02'), ('cy', null);
create table visits (at text);
insert into visits values ('monday'), ('monday'), ('friday');
"""


@contextmanager
def datasette_server() -> Iterator[Mapping[str, Json]]:
    with TemporaryDirectory() as folder:
        database = Path(folder) / "library.db"
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript(TABLES)
        for url in served(database):
            yield {"url": url, "database": "library", "cursor_column": "version", "page_size": 2}


@contextmanager
def prometheus_server() -> Iterator[Mapping[str, Json]]:
    with TemporaryDirectory() as folder:
        samples = Database(Path(folder))
        samples.write(
            {(host, second): second / 7 for host in ("a", 'with "quotes"') for second in range(0, 200_000, 20_000)}
        )
        with samples.serving() as url:
            yield config_of(url)


@contextmanager
def buildbot_server() -> Iterator[Mapping[str, Json]]:
    with TemporaryDirectory() as folder, building(Path(folder)) as builder:
        for name in ("kit", "docs", "kit"):
            builder.start_build(name)
        builder.wait_for(3)
        yield {"url": builder.url}


@contextmanager
def kinto_server() -> Iterator[Mapping[str, Json]]:
    serve = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "kinto" / "serve.py")]
    with serving(serve, r"^(\d+)$") as port, Server(f"http://127.0.0.1:{port}/v1") as kinto:
        kinto.open_account()
        kinto.put_records("blog/posts", 8)
        kinto.put_records("blog/drafts", 4)
        kinto.delete("blog/collections/posts/records/r001")
        auth = {"type": "basic", "username": USER, "password": PASSWORD}
        yield {"server": kinto.url, "auth": auth, "page_size": 3}


SERVERS: Mapping[str, Callable[[], AbstractContextManager[Mapping[str, Json]]]] = {
    "buildbot": buildbot_server,
    "datasette": datasette_server,
    "kinto": kinto_server,
    "prometheus": prometheus_server,
}
"""By the name of its connector, what starts a server with a few rows, and gives the config that reads it."""


def main() -> None:
    """Start each server, read it."""
    for name, server in SERVERS.items():
        with server() as config:
            recording = record(find_source(name), config)
        path = CONNECTORS / name / "cassette.yaml"
        save(path, recording)
        print(f"{path}: {len(recording.interactions)} responses")


if __name__ == "__main__":
    main()
