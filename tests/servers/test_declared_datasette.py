"""The connector of the page about declared sources on a real Datasette: what it reads is what the server answers."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import requests

from cdk import Json, Record
from cdk.sources.discovery import find_source
from cdk.testing import read
from tests.docs.page import DOCS, play
from tests.servers.test_datasette import served

PAGE = DOCS / "how-to" / "declare-a-rest-source.md"
TABLES = """
create table notes (id integer primary key, version integer, body text, stars real);
create table authors (id integer primary key, version integer, name text);
create virtual table hidden using fts4(version);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 250)
insert into notes select i, i % 7 + 1, 'nöte ' || i, i / 2.0 from n;
insert into authors values (1, 3, 'ann'), (2, 1, null), (3, 3, 'cy');
"""
LATER = """
create table fresh (id integer primary key, version integer);
insert into fresh values (1, 1), (2, 1);
insert into authors values (4, 4, 'dee');
update notes set version = 8, body = null where id = 17;
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "library.db"
    change(path, TABLES)
    return path


@pytest.fixture
def url(database: Path) -> Iterator[str]:
    yield from served(database)


def change(path: Path, statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)


def by_key(rows: Iterable[Record]) -> dict[tuple[Json, Json], Record]:
    """The last of the rows of each key; a message has no nulls."""
    return {
        (row["table"], row["id"]): {name: value for name, value in row.items() if value is not None} for row in rows
    }


def answers(url: str) -> dict[tuple[Json, Json], Record]:
    """The rows that the server itself shows, asked for table by table in one go."""
    tables = requests.get(f"{url}/library.json", timeout=30).json()["tables"]
    names = [table["name"] for table in tables if not table["hidden"]]
    pages = {name: requests.get(f"{url}/library/{name}.json?_shape=array&_size=max", timeout=30) for name in names}
    return by_key({**row, "table": name} for name, page in pages.items() for row in page.json())


def test_the_page_does_what_it_says_and_its_connector_reads_what_the_server_answers(
    tmp_path: Path, database: Path, url: str
) -> None:
    play(PAGE, tmp_path, url)
    connector = tmp_path / "library.py"
    lines = [line for line in connector.read_text().splitlines() if line and not line.startswith("#")]
    source, config = find_source(str(connector)), {"url": url}

    first = read(source, "rows", config=config)
    there = answers(url)
    change(database, LATER)
    again = read(source, "rows", config=config, state=first.state_messages)

    assert f"| {len(lines)}, and 3 of `pipeline.yaml` to sync |" in PAGE.read_text()
    assert (first.error, by_key(first.records), len(first.records)) == (None, there, len(there))
    assert (again.error, by_key([*first.records, *again.records])) == (None, answers(url))
    # Per table what is as new as what was there: the greatest versions were 7 and 3.
    assert sorted(by_key(again.records)) == [
        *(("authors", id) for id in (1, 3, 4)),
        *(("fresh", id) for id in (1, 2)),
        *(("notes", id) for id in sorted([*range(6, 251, 7), 17])),
    ]
