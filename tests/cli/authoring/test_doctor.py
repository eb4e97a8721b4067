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


def test_programs_get_one_document(cli: CommandLine) -> None:
    ran = cli("doctor", "missing.yaml", "--json")

    answer = json.loads("\n".join(ran.lines))
    assert (ran.code, answer["format"], answer["healthy"]) == (1, "spark-cdk-doctor/1", False)
    names = [finding["name"] for finding in answer["findings"]]
    assert names == ["versions", "Spark", "Java", "disk", "pipeline"]
    assert answer["findings"][-1]["fix"] == "see `spark-cdk validate missing.yaml`"
