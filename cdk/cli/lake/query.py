"""`spark-cdk query PIPELINE.yaml "select ..."`: queries a pipeline's tables by SQL, in this process, without Spark."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from rich.text import Text

from cdk.base.errors import ConfigError
from cdk.base.values import to_json
from cdk.base.wording import counted
from cdk.cli.lake.tables import tables_folder
from cdk.cli.options import json_option, number_option
from cdk.cli.printed_table import plain_table, wide_console
from cdk.cli.state.options import PipelineFile, pipeline_argument, translate_errors
from cdk.lake.admin.locate import locations_in
from cdk.lake.storage.folder import LocalFolder
from cdk.lake.storage.table_folders import HISTORY

_FILE_WIDTH = 1_000
_PLAIN = re.compile("[a-z_][a-z0-9_]*")
"""Names that need no quotes in SQL."""


@click.command()
@pipeline_argument
@click.argument("sql")
@number_option("-n", "--most", text="Rows to show at most; --json prints all.", default=100)
@json_option
@translate_errors
def query(pipeline: PipelineFile, sql: str, *, most: int, as_json: bool) -> int:
    """Query the tables of a PIPELINE file in SQL; each table has the name of its stream.

    A history is named `orders_history`. Reads the tables in this process; starts no Spark and sends no request to the
    source. With --json each row is an object on a line of its own.
    """
    tables = _tables(pipeline)
    with _explained(pipeline.path, sql, tables):
        rows = _answer(tables, sql)
        if as_json:
            for batch in rows:
                for row in batch.to_pylist():
                    click.echo(to_json(row, str).decode())
            return 0
        first, count = list[pa.RecordBatch](), 0
        for batch in rows:
            # The result may exceed the memory, so only the rows to show are retained.
            first += [batch.slice(0, most - count)] if count < most else []
            count += batch.num_rows
    _print(pa.Table.from_batches(first, rows.schema))
    hidden = f", {most:,} of them shown" if count > most else ""
    click.echo(f"{counted(count, 'row')}{hidden}")
    return 0


def _tables(pipeline: PipelineFile) -> Mapping[str, DeltaTable]:
    """The tables of the pipeline and their histories, by name. Raises ConfigError: there is no table."""
    tables = dict[str, DeltaTable]()
    for location in locations_in(LocalFolder(tables_folder(pipeline)), pipeline.settings.name):
        for name, root in ((location.name, location.root), (f"{location.name}{HISTORY}", location.history)):
            if root is not None and DeltaTable.is_deltatable(str(root)):
                tables[name] = DeltaTable(str(root))
    if not tables:
        raise ConfigError("no sync has committed anything yet: run one", path=str(pipeline.path))
    return tables


def _answer(tables: Mapping[str, DeltaTable], sql: str) -> pa.RecordBatchReader:
    builder = QueryBuilder()
    for name, table in tables.items():
        builder.register(_quoted(name), table)
    return pa.RecordBatchReader.from_stream(builder.execute(sql))


def _quoted(name: str) -> str:
    """Quote a name, so that SQL takes capitals, dots and dashes literally."""
    return '"{}"'.format(name.replace('"', '""'))


@contextmanager
def _explained(path: Path, sql: str, tables: Collection[str]) -> Iterator[None]:
    """Turn an error of the query in the block into a ConfigError, with a hint about names and quotes."""
    try:
        yield
    except (DeltaError, pa.ArrowException) as error:
        # A name without its quotes may also cause a syntax error.
        unquoted = any(name in sql and _quoted(name) not in sql for name in tables if not _PLAIN.fullmatch(name))
        lists, names = unquoted or "not found" in str(error), ", ".join(map(_quoted, sorted(tables)))
        hint = f"; the tables are {names}, in the quotes that SQL needs for capitals, dots and dashes" if lists else ""
        raise ConfigError(f"the query failed: {error}{hint}", path=str(path)) from error


def _print(rows: pa.Table) -> None:
    shown = plain_table()
    for field in rows.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        shown.add_column(Text(field.name), justify="right" if number else "left", overflow="fold")
    for row in rows.to_pylist():
        shown.add_row(*(Text("" if value is None else _cell(value)) for value in row.values()))
    wide_console(width=_FILE_WIDTH).print(shown)


def _cell(value: object) -> str:
    """Format a value for display; objects and lists as JSON."""
    return to_json(value, str).decode() if isinstance(value, (Mapping, list)) else str(value)
