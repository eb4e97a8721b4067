"""SqlStore: two tables in a database that SQLAlchemy knows; tried with PostgreSQL and SQLite.

spark_cdk_state_log    namespace, pipeline, seq -> record (JSON text; the three are the primary key)
spark_cdk_state_blobs  namespace, pipeline, name -> data
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateTable

from cdk.base.errors import ConfigError, TransientError
from cdk.state.stores.key import StateKey

_BUSY = 30
"""Seconds that SQLite waits for another writer."""

_TABLES = sa.MetaData()
_OWNER = ("namespace", "pipeline")
_LOG = sa.Table(
    "spark_cdk_state_log",
    _TABLES,
    *(sa.Column(name, sa.String(200), primary_key=True) for name in _OWNER),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("record", sa.Text, nullable=False),
)
_BLOBS = sa.Table(
    "spark_cdk_state_blobs",
    _TABLES,
    *(sa.Column(name, sa.String(200), primary_key=True) for name in _OWNER),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)


class SqlStore:
    """Rows of two tables. `create` is an INSERT that the primary key lets through once.

    url: as SQLAlchemy writes it, such as `postgresql://user@host/database` or `sqlite:////var/lib/state.db`.
    Raises ConfigError: the URL says nothing that SQLAlchemy knows, or the database's driver is not installed.
    """

    def __init__(self, url: str) -> None:
        try:
            address = sa.make_url(url)
            if address.drivername == "postgresql":
                # SQLAlchemy 2.0 would take psycopg2 here, 2.1 takes psycopg; the extra `sql` brings the latter.
                address = address.set(drivername="postgresql+psycopg")
            sqlite = address.get_backend_name() == "sqlite"
            wait = {"timeout": _BUSY} if sqlite else {}
            self._engine = sa.create_engine(address, connect_args=wait, hide_parameters=True, pool_pre_ping=True)
        except (SQLAlchemyError, ImportError, ValueError) as error:
            # The URL is not shown: it may hold a password, and what cannot be parsed cannot be masked.
            said = error if isinstance(error, ImportError) else "not a URL of a database that SQLAlchemy knows"
            raise ConfigError(f"the database cannot be opened: {said}", path="state_provider.config.url") from None
        self.location = address.render_as_string(hide_password=True)
        self._file = Path(address.database) if sqlite and address.database else None

    def prepare(self) -> None:
        """Make the tables. The primary key is what refuses a second create; there is nothing to prove."""
        for table in (_LOG, _BLOBS):
            try:
                with self._begin() as connection:
                    connection.execute(CreateTable(table, if_not_exists=True))
            except (TransientError, ConfigError, IntegrityError):
                # PostgreSQL: of two who make the table at once, one may fail in the catalog all the
                # same. Then the table is there.
                if not self._there(table):
                    raise

    def create(self, key: StateKey, seq: int, record: bytes) -> bool:
        return self._insert(_LOG, {**_owner(key), "seq": seq, "record": record.decode()})

    def read(self, key: StateKey, seq: int) -> bytes | None:
        rows = self._select(_LOG, _LOG.c.record, _of(_LOG, key), _LOG.c.seq == seq)
        return rows[0].encode() if rows else None

    def numbers(self, key: StateKey) -> Sequence[int]:
        return sorted(self._select(_LOG, _LOG.c.seq, _of(_LOG, key)))

    def keys(self) -> Iterable[StateKey]:
        if not self._there(_LOG):
            return []
        with self._begin() as connection:
            rows = connection.execute(sa.select(_LOG.c.namespace, _LOG.c.pipeline).distinct()).all()
        return sorted(StateKey(row.pipeline, row.namespace) for row in rows)

    def put_blob(self, key: StateKey, name: str, data: bytes) -> None:
        self._insert(_BLOBS, {**_owner(key), "name": name, "data": data})

    def blob(self, key: StateKey, name: str) -> bytes | None:
        rows = self._select(_BLOBS, _BLOBS.c.data, _of(_BLOBS, key), _BLOBS.c.name == name)
        return bytes(rows[0]) if rows else None

    def blobs(self, key: StateKey) -> Iterable[str]:
        return sorted(self._select(_BLOBS, _BLOBS.c.name, _of(_BLOBS, key)))

    def drop(self, key: StateKey, numbers: Iterable[int], blobs: Iterable[str]) -> None:
        with self._begin() as connection:
            for seq in numbers:
                connection.execute(_LOG.delete().where(_of(_LOG, key), _LOG.c.seq == seq))
            for name in blobs:
                connection.execute(_BLOBS.delete().where(_of(_BLOBS, key), _BLOBS.c.name == name))

    def lease(self, key: StateKey) -> AbstractContextManager[None]:  # noqa: ARG002 - a lock would hold a connection
        return nullcontext()

    def place(self, key: StateKey, seq: int) -> str:
        return f"{self.location} {_LOG.name} {key} seq={seq}"

    def close(self) -> None:
        self._engine.dispose()

    def _insert(self, table: sa.Table, row: dict[str, Any]) -> bool:  # Any: what the columns hold
        try:
            with self._begin() as connection:
                connection.execute(table.insert().values(row))
        except IntegrityError:
            return False
        return True

    def _select(self, table: sa.Table, column: sa.Column[Any], *where: sa.ColumnElement[bool]) -> list[Any]:
        """A column of the rows; none where the table is not there, since nothing was ever written."""
        if self._unmade():
            return []
        try:
            with self._begin() as connection:
                return list(connection.execute(sa.select(column).where(*where)).scalars())
        except (TransientError, ConfigError):
            if self._there(table):
                raise
            return []

    def _unmade(self) -> bool:
        """Whether this is a SQLite file that is not there: connecting would make it, and looking makes nothing."""
        return self._file is not None and not self._file.exists()

    def _there(self, table: sa.Table) -> bool:
        if self._unmade():
            return False
        with self._begin() as connection:
            return sa.inspect(connection).has_table(table.name)

    @contextmanager
    def _begin(self) -> Iterator[sa.Connection]:
        """One transaction. What the database says becomes an error of the kit, a broken key excepted."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            # `OperationalError` is a lost connection, a full disk or a busy file; the others are the set-up's.
            known = isinstance(error, DatabaseError) and not isinstance(error, OperationalError)
            said = str(error.orig) if isinstance(error, DatabaseError) else str(error)
            raise (ConfigError if known else TransientError)(
                f"the database failed: {' '.join(said.split())}", path=self.location
            ) from error


def _owner(key: StateKey) -> dict[str, str]:
    return {"namespace": key.namespace, "pipeline": key.pipeline}


def _of(table: sa.Table, key: StateKey) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.namespace == key.namespace, table.c.pipeline == key.pipeline)
