"""SqlStore: two tables in any database that SQLAlchemy supports; tested with PostgreSQL, MariaDB and SQLite.

spark_cdk_state_log    namespace, pipeline, seq -> record (JSON text; the three are the primary key)
spark_cdk_state_blobs  namespace, pipeline, name -> data

Table options and column types override defaults of MariaDB and MySQL that would be wrong here: `Shop` and `shop` are
the same key, TEXT and BLOB end at 64 KiB, and on some servers tables have no transactions.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DatabaseError, DBAPIError, IntegrityError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateTable

from cdk.base.errors import CdkError, ConfigError, TransientError
from cdk.state.stores.protocol import StateKey

_BUSY = 30
"""Seconds that SQLite waits for another writer."""

_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
"""Drivers of the extra `sql`, for URLs that name no driver; SQLAlchemy's defaults differ, also between 2.0 and 2.1."""

_MYSQL = ("mysql", "mariadb")
_AS_IN_OTHERS = {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}
_REFUSED = frozenset({1044, 1045, 1049, 1142, 1698})
"""Codes of MariaDB and MySQL for a missing permission or database, which the driver raises as `OperationalError`."""
_DEADLOCK = 1213
_ANY_TAKES = 2**20
"""Bytes of a statement that MariaDB and MySQL accept with the default settings of every version."""
_TRIES = 5

_TABLES = sa.MetaData()
_OWNER = ("namespace", "pipeline")
_OPTIONS: dict[str, Any] = {  # Any: `sa.Table` takes the options of all dialects
    f"{dialect}_{name}": value for dialect in _MYSQL for name, value in _AS_IN_OTHERS.items()
}
_LOG = sa.Table(
    "spark_cdk_state_log",
    _TABLES,
    *(sa.Column(name, sa.String(200), primary_key=True) for name in _OWNER),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("record", sa.Text().with_variant(mysql.LONGTEXT(), *_MYSQL), nullable=False),
    **_OPTIONS,
)
_BLOBS = sa.Table(
    "spark_cdk_state_blobs",
    _TABLES,
    *(sa.Column(name, sa.String(200), primary_key=True) for name in _OWNER),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("data", sa.LargeBinary().with_variant(mysql.LONGBLOB(), *_MYSQL), nullable=False),
    **_OPTIONS,
)


class SqlStore:
    """Stores records and blobs as rows of two tables. `create` is an INSERT that the primary key lets succeed once.

    url: an SQLAlchemy URL, such as `postgresql://user@host/database` or `sqlite:////var/lib/state.db`.
    Raises ConfigError: when SQLAlchemy does not know the URL, or the database's driver is not installed.
    """

    def __init__(self, url: str) -> None:
        try:
            address = sa.make_url(url)
            address = address.set(drivername=_DRIVERS.get(address.drivername, address.drivername))
            sqlite = address.get_backend_name() == "sqlite"
            wait = {"timeout": _BUSY} if sqlite else {}
            self._engine = sa.create_engine(address, connect_args=wait, hide_parameters=True, pool_pre_ping=True)
        except ImportError as error:
            raise _unopened(str(error)) from None
        except (SQLAlchemyError, ValueError):
            # The URL is not shown: it may contain a password, and an unparsable URL cannot be masked.
            raise _unopened("not a URL of a database that SQLAlchemy knows") from None
        self.location = address.render_as_string(hide_password=True)
        self._file = Path(address.database) if sqlite and address.database else None

    def prepare(self) -> None:
        """Create the tables. The primary key refuses a second create, so there is nothing to prove."""
        for table in (_LOG, _BLOBS):
            try:
                with self._begin() as connection:
                    connection.execute(CreateTable(table, if_not_exists=True))
            except (TransientError, ConfigError, IntegrityError):
                # PostgreSQL: of two sessions that create the table at once, one may fail in the catalog
                # despite IF NOT EXISTS. The table exists then.
                if not self._exists(table):
                    raise

    def create(self, key: StateKey, seq: int, record: bytes) -> bool:
        return self._insert(_LOG, {**_owner(key), "seq": seq, "record": record.decode()})

    def read(self, key: StateKey, seq: int) -> bytes | None:
        rows = self._select(_LOG, _LOG.c.record, _of(_LOG, key), _LOG.c.seq == seq)
        return rows[0].encode() if rows else None

    def numbers(self, key: StateKey) -> Sequence[int]:
        return sorted(self._select(_LOG, _LOG.c.seq, _of(_LOG, key)))

    def keys(self) -> Iterable[StateKey]:
        if not self._exists(_LOG):
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
        rows = [(_LOG, _LOG.c.seq == seq) for seq in numbers] + [(_BLOBS, _BLOBS.c.name == name) for name in blobs]
        self._run([table.delete().where(_of(table, key), which) for table, which in rows])

    def lease(self, key: StateKey) -> AbstractContextManager[None]:  # noqa: ARG002 - a lock would hold a connection
        return nullcontext()

    def address_of(self, key: StateKey, seq: int) -> str:
        return f"{self.location} {_LOG.name} {key} seq={seq}"

    def close(self) -> None:
        self._engine.dispose()

    def _insert(self, table: sa.Table, row: dict[str, Any]) -> bool:  # Any: what the columns hold
        try:
            self._run([table.insert().values(row)])
        except IntegrityError:
            return False
        except TransientError as error:
            self._check_size(max(len(value) for value in row.values() if isinstance(value, str | bytes)), error)
            raise
        return True

    def _run(self, statements: Sequence[sa.Executable]) -> None:
        """Execute all statements in one transaction. A deadlock victim has changed nothing, and is retried."""
        for tries_left in reversed(range(_TRIES)):
            try:
                with self._begin() as connection:
                    for statement in statements:
                        connection.execute(statement)
            except TransientError as error:
                if not tries_left or _code(error.__cause__) != _DEADLOCK:
                    raise
            else:
                return

    def _check_size(self, size: int, error: TransientError) -> None:
        """Raise ConfigError if a statement was too long for the server, which then closes the connection silently."""
        if self._engine.dialect.name not in _MYSQL or size < _ANY_TAKES:
            return
        with self._begin() as connection:
            limit = connection.execute(sa.text("SELECT @@max_allowed_packet")).scalar_one()
        if size + size // 20 > limit:  # a byte in 37 of a compressed blob is escaped
            why = f"found a value of {size} bytes, expected less than max_allowed_packet, {limit}; set it higher"
            raise ConfigError(why, path=self.location) from error

    def _select(self, table: sa.Table, column: sa.Column[Any], *where: sa.ColumnElement[bool]) -> list[Any]:
        """Return a column of the selected rows; empty if the table does not exist, as nothing was ever written."""
        if self._unmade():
            return []
        try:
            with self._begin() as connection:
                return list(connection.execute(sa.select(column).where(*where)).scalars())
        except (TransientError, ConfigError):
            if self._exists(table):
                raise
            return []

    def _unmade(self) -> bool:
        """Whether this is a missing SQLite file. Connecting would create it, but a read must not create anything."""
        return self._file is not None and not self._file.exists()

    def _exists(self, table: sa.Table) -> bool:
        if self._unmade():
            return False
        with self._begin() as connection:
            return sa.inspect(connection).has_table(table.name)

    @contextmanager
    def _begin(self) -> Iterator[sa.Connection]:
        """Open a transaction and translate database errors into errors of the kit, except for IntegrityError."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except (OperationalError, InterfaceError) as error:
            # A lost connection, a full disk or a busy file, unless the code says that the server refuses.
            raise self._failed(ConfigError if _code(error) in _REFUSED else TransientError, error.orig) from error
        except DatabaseError as error:
            raise self._failed(ConfigError, error.orig) from error
        except SQLAlchemyError as error:
            raise self._failed(TransientError, error) from error

    def _failed(self, kind: type[CdkError], reason: BaseException | None) -> CdkError:
        return kind(f"the database failed: {' '.join(str(reason).split())}", path=self.location)


def _unopened(reason: str) -> ConfigError:
    return ConfigError(f"the database cannot be opened: {reason}", path="state_provider.config.url")


def _owner(key: StateKey) -> dict[str, str]:
    return {"namespace": key.namespace, "pipeline": key.pipeline}


def _of(table: sa.Table, key: StateKey) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.namespace == key.namespace, table.c.pipeline == key.pipeline)


def _code(error: BaseException | None) -> object:
    """Return the error code, which drivers of MariaDB and MySQL pass as the first argument."""
    match error:
        case DBAPIError(orig=BaseException(args=(code, *_))):
            return code
        case _:
            return None
