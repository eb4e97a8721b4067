"""`spark-cdk new`: what it writes works at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import CommandLine

PROJECT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("language", "option"), [("python", "--connector pet_python.py"), ("yaml", "--manifest-path manifest.yaml")]
)
def test_its_files_are_without_mistakes(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str, option: str
) -> None:
    name = f"pet-{language}"
    written = cli("new", name, f"--{language}")
    monkeypatch.chdir(tmp_path / name)
    Path("config.json").write_text(Path("config.example.json").read_text())

    validated = cli("validate", "config.json", "pipeline.yaml", *option.split())

    assert (written.code, validated.code) == (0, 0), validated.lines
    assert written.lines[-1] == f"next: cd {name} && pytest; README.md says what then"


def test_its_tests_pass_at_once(cli: CommandLine) -> None:
    for language in ("python", "yaml"):
        cli("new", f"in-{language}", f"--{language}")

    tests = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-c", "in-python/pyproject.toml", "in-python/tests", "in-yaml/tests"),
        ],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert tests.returncode == 0, tests.stdout
    assert "32 passed" in tests.stdout


@pytest.mark.parametrize("language", ["python", "yaml"])
def test_what_it_writes_is_whole(cli: CommandLine, tmp_path: Path, language: str) -> None:
    listed = cli("new", "crm", f"--{language}", "--folder", "here").lines[:-1]
    files = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}

    assert sorted(listed) == sorted(files)
    assert [name for name, text in files.items() if "@module@" in text or "@name@" in text or "@Class@" in text] == []
    for name, text in files.items():
        if name.endswith(".json"):
            json.loads(text)
        if name.endswith((".yaml", ".yml")):
            yaml.safe_load(text)
    assert files["here/pipeline.yaml"].startswith("# yaml-language-server: $schema=schemas/pipeline.schema.json\n")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Shop", "expected lower-case letters"),
        ("shop/x", "expected lower-case letters"),
        ("json", "is taken by a module"),
        ("class", "is taken by a module"),
        ("full", "full: the folder has files"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_and_nothing_written(
    cli: CommandLine, tmp_path: Path, name: str, why: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("")

    ran = cli("new", name)

    assert (ran.code, why in ran.stderr) == (1, True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a"]
