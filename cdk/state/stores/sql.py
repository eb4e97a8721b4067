"""SqlStore: two tables in a database that SQLAlchemy knows; tried with PostgreSQL, MariaDB and SQLite.

spark_cdk_state_log    namespace, pipeline, seq -> record (JSON text; the three are the primary key)
spark_cdk_state_blobs  namespace, pipeline, name -> data

What MariaDB and MySQL would do by themselves, and must not here: they take `Shop` and `shop` for one key, a text and a
blob end at 64 KiB, and the tables of some servers know no transactions.
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
from cdk.state.stores.key import StateKey

_BUSY = 30
"""Seconds that SQLite waits for another writer."""

_DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mariadb+pymysql"}
"""Those that the extra `sql` brings, for URLs that name none; SQLAlchemy would take others, 2.1 others than 2.0."""

_MYSQL = ("mysql", "mariadb")
_AS_IN_OTHERS = {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}
_REFUSED = frozenset({1044, 1045, 1049, 1142, 1698})
"""What MariaDB and MySQL answer where a user may not, or a database is not there: `OperationalError` to the driver."""
_DEADLOCK = 1213
_ANY_TAKES = 2**20
"""Bytes of a statement that MariaDB and MySQL take, as they were ever set by default."""
_TRIES = 5

_TABLES = sa.MetaData()
_OWNER = ("namespace", "pipeline")
_OPTIONS: dict[str, Any] = {  # Any: what the other dialects take, too
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
    """Rows of two tables. `create` is an INSERT that the primary key lets through once.

    url: as SQLAlchemy writes it, such as `postgresql://user@host/database` or `sqlite:////var/lib/state.db`.
    Raises ConfigError: the URL says nothing that SQLAlchemy knows, or the database's driver is not installed.
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
            # The URL is not shown: it may hold a password, and what cannot be parsed cannot be masked.
            raise _unopened("not a URL of a database that SQLAlchemy knows") from None
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
        """Carry out all of them or none. Who was sacrificed to end a deadlock changed nothing, and tries again."""
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
        """Raise ConfigError where the server hung up because a statement was too long for it: it says no more."""
        if self._engine.dialect.name not in _MYSQL or size < _ANY_TAKES:
            return
        with self._begin() as connection:
            limit = connection.execute(sa.text("SELECT @@max_allowed_packet")).scalar_one()
        if size + size // 20 > limit:  # a byte in 37 of a compressed blob is escaped
            raise ConfigError(
                f"found a value of {size} bytes, expected less than max_allowed_packet, {limit}; set it higher",
                path=self.location,
            ) from error

    def _select(self, table: sa.Table, column: sa.Column[Any], *where: sa.ColumnElement[bool]) -> list[Any]:
        """A column of the rows; none where the table is not there, since nothing was ever written."""
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
        """Whether this is a SQLite file that is not there: connecting would make it, and looking makes nothing."""
        return self._file is not None and not self._file.exists()

    def _exists(self, table: sa.Table) -> bool:
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
        except (OperationalError, InterfaceError) as error:
            # A lost connection, a full disk or a busy file, where the server does not refuse.
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
    """The number that a driver of MariaDB and MySQL gives first."""
    match error:
        case DBAPIError(orig=BaseException(args=(code, *_))):
            return code
        case _:
            return None
