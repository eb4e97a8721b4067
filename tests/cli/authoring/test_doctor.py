"""`spark-cdk doctor`."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine

JAVA = """#!/bin/sh
printf 'java.home = /java\njava.version = 17.0.1\n' >&2
"""

PIPELINE = """
name: guarded
source: {connector: guarded.py, config: {api_key: KEY}}
target: {path: tables}
"""


@pytest.fixture(autouse=True)
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that says what it is, and no more."""
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(JAVA)
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))


def test_each_finding_has_a_line_and_secrets_none(cli: CommandLine, guarded: str, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("KEY", "wrong-and-secret"))

    ran = cli("doctor", "pipeline.yaml")

    assert (tmp_path / guarded).exists()
    assert ran.code == 1
    assert "✓ pipeline: pipeline.yaml: guarded" in ran.lines
    assert "✗ source: the source refused the key ****" in ran.lines
    assert "  do this: correct the config, or renew the credentials" in ran.lines
    assert "- network: the check of the source sent no request" in ran.lines
    assert any(line.startswith("✓ target: ") for line in ran.lines)
    assert "wrong-and-secret" not in "\n".join(ran.lines) + ran.stderr


def test_a_connector_is_tried_without_a_pipeline(cli: CommandLine, guarded: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"api_key": "wrong-and-secret"}')

    ran = cli("doctor", "--connector", guarded, "--config", "config.json")
    both = cli("doctor", "pipeline.yaml", "--connector", guarded)

    assert ran.code == 1
    assert {"✓ connector: guarded", "✗ source: the source refused the key ****"} <= set(ran.lines)
    assert not any("target" in line for line in ran.lines)
    assert "wrong-and-secret" not in "\n".join(ran.lines) + ran.stderr
    assert (both.code, "names its connector" in both.stderr) == (2, True)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ('Page([{"id": slise}], None)', "NameError: name 'slise' is not defined (FILE:6, in read_page)"),
        ("Page([1], None)", "record 0 of a page is a int, expected a JSON object such as {'id': 1} (FILE:5)"),
    ],
)
def test_a_slip_in_the_code_of_a_connector_is_not_one_of_its_config(
    cli: CommandLine, tmp_path: Path, returned: str, text: str
) -> None:
    file = tmp_path / "slip.py"
    file.write_text(
        "from cdk import Page, PagedStream\n\n\n"
        f"class Users(PagedStream):\n    def read_page(self, slice, token):\n        return {returned}\n"
    )

    ran = cli("doctor", "--connector", "slip.py")

    assert ran.code == 1
    assert f"✗ source: {text.replace('FILE', str(file))}" in ran.lines
    assert "  do this: correct the connector's code; the config is not at fault" in ran.lines


def test_the_check_of_a_pipeline_tries_all_that_it_names(cli: CommandLine, guarded: str, tmp_path: Path) -> None:
    provider = "state: {state_provider: {type: local, config: {path: pipeline.yaml}}}\n"
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("KEY", "wrong-and-secret") + provider)

    ran = cli("check", "pipeline.yaml")
    both = cli("check", "pipeline.yaml", "--connector", guarded)

    assert ran.code == 1
    assert ran.lines[:3] == [
        "✓ pipeline: pipeline.yaml: guarded",
        "- network: the check of the source sent no request",
        "✗ source: the source refused the key ****",
    ]
    assert any(line.startswith("✓ target: ") for line in ran.lines)
    assert any(line.startswith("✗ state: ") for line in ran.lines)
    assert "  do this: correct state.state_provider, or start the store" in ran.lines
    assert (both.code, "names its connector" in both.stderr) == (2, True)


def test_programs_get_one_document(cli: CommandLine) -> None:
    ran = cli("doctor", "missing.yaml", "--json")

    answer = json.loads("\n".join(ran.lines))
    assert (ran.code, answer["format"], answer["healthy"]) == (1, "spark-cdk-doctor/1", False)
    names = [finding["name"] for finding in answer["findings"]]
    assert names == ["versions", "Spark", "Java", "disk", "pipeline"]
    assert answer["findings"][-1]["fix"] == "correct it; `spark-cdk validate missing.yaml` reports what else is wrong"
