import sqlite3
from pathlib import Path

import pytest

from cdk import CdkError, ConfigError, TransientError
from cdk.state import StateKey
from cdk.state.stores.sql import SqlStore

KEY = StateKey("shop", "prod")


def test_the_tables_can_be_queried_by_people(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/state.db")
    store.prepare()
    store.create(KEY, 1, b'{"status":"final"}')
    store.close()
    with sqlite3.connect(tmp_path / "state.db") as database:
        query = "select namespace, pipeline, seq, json_extract(record, '$.status') from spark_cdk_state_log"
        rows = database.execute(query).fetchall()
    database.close()

    assert rows == [("prod", "shop", 1, "final")]


def test_looking_makes_no_file(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/state.db")

    assert (store.numbers(KEY), store.read(KEY, 1), list(store.keys())) == ([], None, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["nonsense", "postgresql://user:s3cr3t-word@127.0.0.1:bad/db", "oracle://u:s3cr3t-word@h/d"]
)
def test_a_url_that_cannot_be_used_is_told_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="the database cannot be opened") as refused:
        SqlStore(url)

    assert refused.value.path == "state_provider.config.url"
    assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize("database", ["postgresql", "mysql", "mariadb"])
def test_a_server_that_is_away_is_told_without_its_password(database: str) -> None:
    store = SqlStore(f"{database}://user:s3cr3t-word@127.0.0.1:1/state")
    with pytest.raises(TransientError, match="the database failed") as failed:
        store.prepare()

    assert "s3cr3t" not in str(failed.value)
    assert "***@127.0.0.1:1" in str(failed.value)
    assert "s3cr3t" not in store.address_of(KEY, 1)


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"nonsense" * 1000)
    store = SqlStore(f"sqlite:///{tmp_path}/state.db")

    with pytest.raises(CdkError, match="file is not a database"):
        store.numbers(KEY)
