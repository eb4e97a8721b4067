"""Records the cassettes of connectors anew: `python -m tests.connectors.record_cassettes`.

Each is read from a real server with a few rows, which is started here.
"""

import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from cdk import Json, Source
from cdk.testing.cassettes import record
from cdk.testing.cassettes.interactions import save
from connectors.buildbot import source as buildbot
from connectors.datasette import source as datasette
from connectors.kinto import Kinto
from connectors.prometheus import Prometheus
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


def main() -> None:
    """Start each server, fill it, read it."""
    with TemporaryDirectory() as folder:
        database = Path(folder) / "library.db"
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript(TABLES)
        for url in served(database):
            config = {"url": url, "database": "library", "cursor_column": "version", "page_size": 2}
            _record("datasette", datasette, config)
        samples = Database(Path(folder))
        samples.write(
            {(host, second): second / 7 for host in ("a", 'with "quotes"') for second in range(0, 200_000, 20_000)}
        )
        with samples.serving() as url:
            _record("prometheus", Prometheus(), config_of(url))
    with TemporaryDirectory() as folder, building(Path(folder)) as builder:
        for name in ("kit", "docs", "kit"):
            builder.start_build(name)
        builder.wait_for(3)
        _record("buildbot", buildbot, {"url": builder.url})
    serve = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "kinto" / "serve.py")]
    with serving(serve, r"^(\d+)$") as port, Server(f"http://127.0.0.1:{port}/v1") as kinto:
        kinto.open_account()
        kinto.put_records("blog/posts", 8)
        kinto.put_records("blog/drafts", 4)
        kinto.delete("blog/collections/posts/records/r001")
        auth = {"type": "basic", "username": USER, "password": PASSWORD}
        _record("kinto", Kinto(), {"server": kinto.url, "auth": auth, "page_size": 3})


def _record(name: str, source: Source, config: Mapping[str, Json]) -> None:
    path = CONNECTORS / name / "cassette.yaml"
    recording = record(source, config)
    save(path, recording)
    print(f"{path}: {len(recording.interactions)} responses")


if __name__ == "__main__":
    main()
