"""`spark-cdk completion` and `--version`."""

import subprocess
from importlib.metadata import version

import pytest

from tests.cli.conftest import CommandLine


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(cli: CommandLine, shell: str) -> None:
    ran = cli("completion", shell)

    assert ran.code == 0
    assert f"_SPARK_CDK_COMPLETE={shell}_complete" in "\n".join(ran.lines)


def test_bash_takes_the_script(cli: CommandLine) -> None:
    script = "\n".join(cli("completion", "bash").lines)

    subprocess.run(["/bin/bash", "-c", f"{script}\ncomplete -p spark-cdk"], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("spark-cdk pre", "plain,preview"),
        ("spark-cdk preview --sta", "plain,--state"),
        ("spark-cdk state ro", "plain,rollback"),
    ],
)
def test_commands_and_options_are_completed(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, words: str, offered: str
) -> None:
    monkeypatch.setenv("_SPARK_CDK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))

    ran = cli()

    assert (ran.code, ran.lines[:1]) == (0, [offered])


def test_the_version_is_that_of_the_package(cli: CommandLine) -> None:
    ran = cli("--version")

    assert (ran.code, ran.lines) == (0, [f"spark-cdk, version {version('spark-cdk')}"])
