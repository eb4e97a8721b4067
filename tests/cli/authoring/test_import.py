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


def nested(levels: int, begin: str, end: str) -> str:
    return begin * levels + "1" + end * levels


OBJECTS, LISTS, ITEMS = ('{"a":', "}"), ("[", "]"), ('{"type":"array","items":', "}")
DESCRIBED = """{"openapi": "3.0.0", "servers": [{"url": "https://a.test"}], "paths": {"/users": {"get":
{"responses": {"200": {"content": {"application/json":
{"schema": {"type": "array", "items": {"properties": {"id": DEEP}}}}}}}}}}}"""
DEEP_DOCUMENTS = {
    "openapi": (("new", "my", "--from-openapi"), DESCRIBED),
    "dlt": (
        ("import", "dlt-rest-api"),
        '{"client": {"base_url": "https://a.test"}, "resources": [{"name": "a", "endpoint": {"json": {"b": DEEP}}}]}',
    ),
    "singer": (("import", "singer-tap"), '{"streams": [{"stream": "a", "schema": {"properties": {"b": DEEP}}}]}'),
    "curl": (("new", "my", "--from-curl"), """curl https://a.test/users -X POST -d '{"b": DEEP}'"""),
}


@pytest.mark.parametrize("levels", [20, 130, 190, 300, 490, 900, 3000])
@pytest.mark.parametrize("parts", [OBJECTS, LISTS, ITEMS])
@pytest.mark.parametrize("kind", DEEP_DOCUMENTS)
def test_a_document_however_deep_becomes_a_manifest_that_can_be_read_or_is_refused(
    cli: CommandLine, tmp_path: Path, kind: str, parts: tuple[str, str], levels: int
) -> None:
    command, text = DEEP_DOCUMENTS[kind]
    document = text.replace("DEEP", nested(levels, *parts))
    file = "deep.py" if kind == "dlt" and levels % 20 else "deep.json"
    (tmp_path / file).write_text(document)

    ran = cli(*command, document if kind == "curl" else file)

    if ran.code == 0:
        (manifest,) = tmp_path.glob("*/manifest.yaml")
        assert cli("validate", str(manifest)).code == 0
    else:
        assert ran.stderr.startswith("Error: ")
        assert "deep" in ran.stderr.lower() or "depth" in ran.stderr or "nested" in ran.stderr or kind == "curl"
        assert "Traceback" not in ran.stderr
        assert levels > 100
