"""`spark-cdk import`: what other tools read APIs with becomes a folder whose tests pass."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine

CATALOG = {
    "streams": [{"stream": "users", "key_properties": ["id"], "schema": {"properties": {"id": {"type": "integer"}}}}]
}
CONFIG = {
    "client": {"base_url": "https://a.test/v1"},
    "resources": [
        {"name": "users", "endpoint": {"data_selector": "users", "paginator": "single_page"}},
        {
            "name": "visits",
            "endpoint": {
                "path": "users/{id}/visits",
                "params": {"id": {"type": "resolve", "resource": "users", "field": "name"}},
            },
        },
    ],
}


@pytest.mark.parametrize(
    ("command", "file", "content"),
    [("dlt-rest-api", "shop_api.yaml", CONFIG), ("singer-tap", "tap-shop.json", CATALOG)],
)
def test_a_folder_is_written_whose_tests_pass(
    cli: CommandLine, tmp_path: Path, command: str, file: str, content: object
) -> None:
    (tmp_path / file).write_text(json.dumps(content))

    written = cli("import", command, file, "--name", "my-import")
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "cdk.testing.plugin"],
        cwd=tmp_path / "my-import",
        capture_output=True,
        text=True,
        check=False,
    )

    assert written.code == 0, written.lines
    assert "## What was guessed" in written.lines
    assert tests.returncode == 0, tests.stdout


def test_a_file_that_is_none_is_an_error_in_a_line(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("[]")

    assert cli("import", "singer-tap", "rows.json").code == 1
    assert cli("import", "dlt-rest-api", "missing.py").code == 1
