"""`spark-cdk query`: SQL over the tables of a pipeline."""

import json
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.cli.conftest import CommandLine
from tests.spark.featured_table import FEATURES, delete_by_vector, give

SHOP = dedent("""
    from cdk import Page, PagedStream, Source

    class Orders(PagedStream):
        primary_key = "id"
        schema = {
            "type": "object",
            "properties": {
                "id": {"type": "integer"}, "day": {"type": "string", "format": "date"}, "tags": {"type": "array"}
            },
        }

        def read_page(self, slice, token):
            return Page([{"id": n, "day": f"2024-01-{n:02}", "tags": [n]} for n in range(1, 5)], None)

    class Products(Orders):
        name = "Eu-Products"
        namespace = "eu"

    class Shop(Source):
        stream_classes = [Orders, Products]
""")
PIPELINE = dedent("""
    name: shop
    source: {connector: shop.py}
    target: {path: tables}
    spark: {start: never}
    streams:
      orders: {write_mode: append_dedup, history: true}
      Eu-Products: {write_mode: append}
""")

TABLES = 'the tables are "eu.Eu-Products", "orders", "orders_history", in the quotes'


@pytest.fixture
def synced(tmp_path: Path, cli: CommandLine) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    assert cli("sync", "pipeline.yaml", "--quiet").code == 0
    return tmp_path


@pytest.mark.usefixtures("synced")
def test_rows_are_shown_as_a_table_in_the_order_of_the_query(cli: CommandLine) -> None:
    ran = cli("query", "pipeline.yaml", "select id, day from orders order by id desc", "-n", "2")

    assert ran.code == 0
    assert next(line.split() for line in ran.lines if line.strip()) == ["id", "day"]
    assert [line.split() for line in ran.lines if "2024" in line] == [["4", "2024-01-04"], ["3", "2024-01-03"]]
    assert ran.lines[-1] == "4 rows, 2 of them shown"


@pytest.mark.usefixtures("synced")
def test_programs_get_each_row_as_an_object(cli: CommandLine) -> None:
    ran = cli("query", "pipeline.yaml", "select id, day, tags from orders where id > 2 order by id", "--json")

    assert [json.loads(line) for line in ran.lines] == [
        {"id": 3, "day": "2024-01-03", "tags": "[3]"},
        {"id": 4, "day": "2024-01-04", "tags": "[4]"},
    ]


@pytest.mark.usefixtures("synced")
def test_histories_and_tables_of_namespaces_have_names(cli: CommandLine) -> None:
    sql = 'select count(*) as n from orders_history union all select count(*) from "eu.Eu-Products"'

    ran = cli("query", "pipeline.yaml", sql, "--json")

    assert [json.loads(line) for line in ran.lines] == [{"n": 4}, {"n": 4}]


@pytest.mark.usefixtures("synced")
@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("select 1 from ordres", TABLES),
        ("select 1 from eu.Eu-Products", TABLES),
        ('select 1 from eu."Eu-Products"', TABLES),
        ("selec", "the query failed: SQL error"),
        ("select nope from orders", "No field named nope"),
        ("select id / 0 from orders", "the query failed"),
        ("insert into orders (id) values (9)", "the query failed"),
        ("select 1; select 2", "single SQL statement"),
    ],
)
def test_a_query_that_cannot_be_answered_is_an_error(cli: CommandLine, sql: str, text: str) -> None:
    ran = cli("query", "pipeline.yaml", sql)

    assert ran.code == 1
    assert ran.stderr.startswith("Error: pipeline.yaml: ")
    assert text in ran.stderr
    assert ran.lines == []


def test_rows_that_another_engine_deleted_are_in_no_answer(synced: Path, cli: CommandLine) -> None:
    root = synced / "tables" / "orders"
    give(root, FEATURES["deletion vectors"])
    (file,) = pa.table(DeltaTable(str(root)).get_add_actions(flatten=True)).to_pylist()
    delete_by_vector(root, {file["path"]: [1, 2]})

    ran = cli("query", "pipeline.yaml", "select id, count(*) over () as n from orders order by id", "--json")

    assert [json.loads(line) for line in ran.lines] == [{"id": 1, "n": 2}, {"id": 4, "n": 2}]


def test_a_column_that_another_engine_renamed_has_its_new_name(synced: Path, cli: CommandLine) -> None:
    root = synced / "tables" / "orders"
    mapping = FEATURES["column mapping"]
    give(root, mapping)
    give(root, replace(mapping, properties={}, fields={"day": {"name": "date of"}}))

    ran = cli("query", "pipeline.yaml", 'select "date of" from orders where "date of" > \'2024-01-03\'', "--json")

    assert [json.loads(line) for line in ran.lines] == [{"date of": "2024-01-04"}]


def test_before_the_first_sync_there_is_nothing_to_ask(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    missing = cli("query", "pipeline.yaml", "select 1")
    (tmp_path / "tables").mkdir()
    empty = cli("query", "pipeline.yaml", "select 1")

    assert (missing.code, empty.code) == (1, 1)
    assert "run a sync" in missing.stderr
    assert "no sync has committed anything yet" in empty.stderr
