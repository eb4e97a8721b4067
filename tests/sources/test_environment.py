"""What the variables of files come from: the environment, `.env` files, files and commands."""

from pathlib import Path

import pytest

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.values import Json, dotted
from cdk.sources.environment import PartialEnvironment, env_file_secrets, environment
from cdk.sources.variables import named_values, with_variables


def test_values_come_from_files_and_commands_too(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cr3t of a file\n")
    (tmp_path / "count.sh").write_text('echo x >> runs; echo "$1: s3cr3t"')
    value = {"a": "Bearer ${file:token}", "b": ["${command:sh count.sh 'a b'}"] * 2, "c": "$${file:token}"}
    secrets = Secrets()

    filled = with_variables(value, environment(tmp_path), dotted, secrets)

    assert filled == {"a": "Bearer s3cr3t of a file", "b": ["a b: s3cr3t"] * 2, "c": "${file:token}"}
    assert secrets.mask("s3cr3t of a file, a b: s3cr3t") == "****, ****"
    assert (tmp_path / "runs").read_text() == "x\n"


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("OTHER=planted-4711", True),
        ("OTHER=correct-horse", True),
        ("OTHER=Planted", True),
        ("OTHER=471108", True),
        ("OTHER=https://hooks.example.com/T0AB3/xYz", True),
        ("OTHER=https://hooks.example.com/abc123def456", True),
        ("OTHER=https://somebody:else@example.com/", True),
        ("PASSWORD=tables", True),
        ("PASSWORD=root", True),
        ("OTHER=tables", False),
        ("OTHER=a4711", False),
        ("OTHER=/data/tables", False),
        ("OTHER=data/v2/tables", False),
        ("OTHER=s3://lake/tables2/", False),
        ("OTHER=http://127.0.0.1:8000/v1", False),
        ("NAMED=planted-4712", False),
        ("OTHER", False),
    ],
)
def test_what_lies_in_an_env_file_may_be_secret_though_nothing_names_it(
    tmp_path: Path, line: str, *, secret: bool
) -> None:
    (tmp_path / ".env").write_text(f"{line}\nNAMED=planted-4712\n" if "NAMED" not in line else line)
    named = named_values({"target": ["${NAMED}/${UNSET:-x}"]}, environment(tmp_path))

    assert [*env_file_secrets(tmp_path, named=named)] == ([line.partition("=")[2]] if secret else [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("${file:missing}", "a: the file `missing` cannot be read: No such file or directory"),
        ("${file:empty}", "a: the file `empty` is empty, expected a value"),
        ("${file:bytes}", "a: the file `bytes` is not UTF-8 text"),
        (
            "${command:cat bytes}",
            "a: the command `cat …` is not a valid command line, or its output is not UTF-8 text; try it",
        ),
        ("${command:nowhere-to-be-found}", "a: the command `nowhere-to-be-found` cannot be run: No such file"),
        ("${command:sh -c 'echo s3cr3t; exit 3'}", "a: the command `sh …` failed with exit code 3; try it in a shell"),
        (
            "${command:true 's3cr3t}",
            "a: the command `true …` is not a valid command line, or its output is not UTF-8 text",
        ),
        ("${command:true}", "a: the command `true` printed nothing, expected a value"),
    ],
)
def test_a_file_or_a_command_that_gives_nothing_is_named_without_what_it_says(
    tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"s3cr3t\xff")

    with pytest.raises(ConfigError) as refused:
        with_variables({"a": text}, environment(tmp_path), dotted)

    assert str(refused.value).startswith(why)
    assert "s3cr3t" not in str(refused.value)
    assert with_variables(text, PartialEnvironment(environment(tmp_path)), dotted) == text


def test_what_is_not_to_run_does_not(tmp_path: Path) -> None:
    environ = environment(tmp_path, refused="is not looked up")
    with pytest.raises(ConfigError) as refused:
        with_variables(["${command:touch here}", "${file:here}"], environ, dotted)

    assert [line.partition(": ")[2] for line in str(refused.value).splitlines()] == [
        "the command `touch …` is not looked up",
        "the file `here` is not looked up",
    ]
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_set_may_stay_as_it_is_written_and_defaults_count() -> None:
    value: Json = with_variables(["${SET} ${UNSET}", "${UNSET:-x}"], PartialEnvironment({"SET": "value"}), dotted)

    assert value == ["value ${UNSET}", "x"]


def test_a_file_beside_says_what_the_environment_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("# names\nexport TOKEN='s3cret # no comment'\nHERE=file\nRAW=${HERE}\nEMPTY\n")
    monkeypatch.setenv("HERE", "environment")

    environ = environment(tmp_path)

    assert (environ["TOKEN"], environ["HERE"], environ["RAW"]) == ("s3cret # no comment", "environment", "${HERE}")
    assert "EMPTY" not in environ


def test_further_folders_say_what_the_files_before_lack(tmp_path: Path) -> None:
    for name, text in (("conf", "ONE=of conf"), ("further", "ONE=of further\nTWO=of further")):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".env").write_text(text)
        (tmp_path / name / "token").write_text(name)

    environ = environment(tmp_path / "conf", tmp_path / "further")

    assert [environ[name] for name in ("ONE", "TWO", "file:token")] == ["of conf", "of further", "conf"]


def test_a_file_that_cannot_be_read_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=\xff\n")

    with pytest.raises(ConfigError, match=r"\.env: cannot be read"):
        environment(tmp_path)
