"""What only a MariaDB server does to a state store: deadlocks, connections that are killed, limits, refused users."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from cdk import ConfigError
from cdk.state import StateKey
from cdk.state.stores.sql import SqlStore
from tests.state.stores.servers import mariadb, needs_mariadb

pytestmark = needs_mariadb

KEY = StateKey("shop", "prod")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mariadb(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture
def admin(url: str) -> sa.Engine:
    """The server, with an empty database."""
    engine = sa.create_engine(sa.make_url(url).set(drivername="mysql+pymysql"), poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE OR REPLACE DATABASE state"))
    return engine


@pytest.fixture
def store(url: str, admin: sa.Engine) -> Iterator[SqlStore]:  # noqa: ARG001 - it empties the database
    store = SqlStore(url)
    store.prepare()
    yield store
    store.close()


def status(admin: sa.Engine, name: str) -> int:
    """A figure that the server keeps of itself."""
    with admin.begin() as connection:
        return int(connection.execute(sa.text(f"SHOW GLOBAL STATUS LIKE '{name}'")).one().Value)


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_the_tables_are_what_the_log_needs_whatever_the_server_makes_by_default(
    url: str, admin: sa.Engine, scheme: str
) -> None:
    with admin.begin() as connection:
        connection.execute(sa.text("SET GLOBAL default_storage_engine = Aria"))
    store = SqlStore(url.replace("mysql:", f"{scheme}:"))
    store.prepare()
    store.put_blob(KEY, "1-aa", bytes(100_000))
    store.close()
    with admin.begin() as connection:
        connection.execute(sa.text("SET GLOBAL default_storage_engine = InnoDB"))
        query = "SELECT engine, table_collation FROM information_schema.tables WHERE table_schema = 'state'"
        tables = [tuple(row) for row in connection.execute(sa.text(query))]

    assert tables == [("InnoDB", "utf8mb4_bin")] * 2


def test_of_two_who_waited_for_a_run_that_gave_up_one_creates_and_the_other_is_told_no(
    url: str, store: SqlStore, admin: sa.Engine
) -> None:
    other = SqlStore(url)
    with ThreadPoolExecutor(2) as pool:
        with admin.connect() as first:
            first.execute(sa.text("INSERT INTO spark_cdk_state_log VALUES ('prod', 'shop', 1, '{}')"))
            waiting = [pool.submit(one.create, KEY, 1, b'"later"') for one in (store, other)]
            # Both get a lock that the other one waits for, once the first is gone.
            while status(admin, "Innodb_row_lock_current_waits") < 2:
                assert not any(one.done() for one in waiting)
            first.rollback()
        outcome = sorted(one.result(timeout=60) for one in waiting)
    other.close()

    assert outcome == [False, True]
    assert store.read(KEY, 1) == b'"later"'
    assert status(admin, "Innodb_deadlocks") == 1


def test_connections_that_the_server_has_closed_are_opened_again(store: SqlStore, admin: sa.Engine) -> None:
    store.create(KEY, 1, b"{}")
    with admin.begin() as connection:
        others = connection.execute(
            sa.text("SELECT id FROM information_schema.processlist WHERE db = 'state' AND id <> connection_id()")
        ).scalars()
        killed = [connection.execute(sa.text(f"KILL {id}")) for id in others.all()]

    assert len(killed) == 1
    assert store.create(KEY, 2, b"{}")
    assert store.numbers(KEY) == [1, 2]


def test_a_value_that_is_too_large_for_the_server_names_the_setting(store: SqlStore) -> None:
    with pytest.raises(ConfigError, match=r"found a value of 17000000 bytes, .*max_allowed_packet, 16777216"):
        store.put_blob(KEY, "1-aa", bytes(17_000_000))

    assert store.blob(KEY, "1-aa") is None


def test_a_user_who_may_not_is_an_error_of_the_set_up(url: str, store: SqlStore, admin: sa.Engine) -> None:
    with admin.begin() as connection:
        connection.execute(sa.text("CREATE OR REPLACE USER reader@localhost IDENTIFIED BY 's3cr3t-word'"))
        connection.execute(sa.text("GRANT SELECT ON state.* TO reader@localhost"))
    store.create(KEY, 1, b"{}")
    reader = SqlStore(url.replace("root@", "reader:s3cr3t-word@"))
    stranger = SqlStore(url.replace("root@", "reader:wrong-s3cr3t@"))
    nowhere = SqlStore(url.replace("/state", "/no_such"))

    assert reader.numbers(KEY) == [1]
    with pytest.raises(ConfigError, match="INSERT command denied"):
        reader.create(KEY, 2, b"{}")
    with pytest.raises(ConfigError, match="Access denied") as refused:
        stranger.numbers(KEY)
    with pytest.raises(ConfigError, match="Unknown database 'no_such'"):
        nowhere.prepare()
    assert "s3cr3t" not in str(refused.value)
    for one in (reader, stranger, nowhere):
        one.close()


def test_a_user_who_may_not_make_tables_can_use_those_that_are_there(
    url: str, store: SqlStore, admin: sa.Engine
) -> None:
    store.create(KEY, 1, b"{}")
    with admin.begin() as connection:
        connection.execute(sa.text("CREATE OR REPLACE USER writer@localhost"))
        connection.execute(sa.text("GRANT SELECT, INSERT, DELETE ON state.* TO writer@localhost"))
    writer = SqlStore(url.replace("root@", "writer@"))
    writer.prepare()
    writer.create(KEY, 2, b"{}")
    writer.drop(KEY, [1], [])
    writer.close()

    assert store.numbers(KEY) == [2]
