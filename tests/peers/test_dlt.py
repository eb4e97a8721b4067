"""The connector of docs/how-to/declare-a-rest-source.md in dlt and here, on one Datasette: what the page says."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cdk import Json, Record
from cdk.sources.discovery import find_source
from cdk.testing import read
from tests.docs.page import BLOCK
from tests.peers.kits import DLT
from tests.servers.test_datasette import served
from tests.servers.test_declared_datasette import LATER, PAGE, TABLES, answers, by_key, change

SHOW = """
import json, duckdb
rows = duckdb.connect("library.duckdb").sql("select * from tables.rows")
print(json.dumps([dict(zip(rows.columns, row)) for row in rows.fetchall()]))
"""

Rows = Mapping[tuple[Json, Json], Record]


def run(folder: Path, *arguments: str) -> str:
    """What the Python of dlt's environment prints, with all that dlt keeps in `folder`."""
    home = {"HOME": str(folder), "DLT_DATA_DIR": str(folder / "dlt"), "RUNTIME__DLTHUB_TELEMETRY": "false"}
    answer = subprocess.run(
        [DLT / "bin" / "python", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def dlt(folder: Path, url: str) -> Rows:
    """The table after another run of dlt, with our name for the parent's field and without dlt's own columns."""
    run(folder, "library_dlt.py", url)
    rows = json.loads(run(folder, "-c", SHOW))
    return by_key(
        {"table": row.pop("_tables_name"), **{name: value for name, value in row.items() if name[0] != "_"}}
        for row in rows
    )


def test_both_read_all_at_first_and_only_here_each_table_has_a_cursor_of_its_own(tmp_path: Path) -> None:
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "python" and text.startswith("# library"):
            (tmp_path / text.split()[1]).write_text(text)
    source, database = find_source(str(tmp_path / "library.py")), tmp_path / "library.db"
    change(database, TABLES)
    for url in served(database):
        first = read(source, "rows", config={"url": url})
        assert (by_key(first.records), dlt(tmp_path, url)) == (answers(url), answers(url))

        change(database, LATER)
        again = read(source, "rows", config={"url": url}, state=first.state_messages)
        there = answers(url)

        assert by_key([*first.records, *again.records]) == there
        # 4 is the version of the new author and 1 that of the rows of the new table; that of a note was 7 before.
        missing = {("authors", 4), ("fresh", 1), ("fresh", 2)}
        assert dlt(tmp_path, url) == {key: row for key, row in there.items() if key not in missing}
