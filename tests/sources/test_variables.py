"""Values of the environment in files that people write."""

from pathlib import Path

import pytest

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.values import Json, dotted
from cdk.sources.variables import PartialEnvironment, env_file_secrets, environment, named_values, with_variables

ENVIRON = {"SET": "value", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${SET}", "value"),
        ("a ${SET} and ${SET}", "a value and value"),
        ("${EMPTY}", ""),
        ("${SET:-other}", "value"),
        ("${UNSET:-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("${UNSET:-}", ""),
        ("${UNSET:-https://a.test/?b=1}", "https://a.test/?b=1"),
        ("$${SET}", "${SET}"),
        ("$${UNSET:-x} ${SET}", "${UNSET:-x} value"),
        ("$SET ${1} ${} {SET}", "$SET ${1} ${} {SET}"),
    ],
)
def test_variables_defaults_and_escapes(text: str, value: str) -> None:
    assert with_variables({"a": [text]}, ENVIRON, dotted) == {"a": [value]}


def test_what_is_no_variable_stays_where_another_program_has_variables() -> None:
    value: Json = {"conf": {"a": "${SET} ${system:user.name} $${SET}"}}

    assert with_variables(value, ENVIRON, dotted, foreign=("conf",)) == {
        "conf": {"a": "value ${system:user.name} ${SET}"}
    }


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


def test_all_that_are_unset_are_named_with_their_places() -> None:
    with pytest.raises(ConfigError) as refused:
        with_variables({"a": "${ONE} ${TWO:-x}", "b": ["${THREE}"]}, ENVIRON, dotted)

    assert [line.partition(" is not")[0] for line in str(refused.value).splitlines()] == [
        "a: the environment variable ONE",
        "b[0]: the environment variable THREE",
    ]


def test_what_is_not_set_may_stay_as_it_is_written_and_defaults_count() -> None:
    value: Json = with_variables(["${SET} ${UNSET}", "${UNSET:-x}"], PartialEnvironment(ENVIRON), dotted)

    assert value == ["value ${UNSET}", "x"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "${env:TICK_TOKEN}",
            "a: found ${env:TICK_TOKEN}, which is not a variable; expected ${TICK_TOKEN}, or `$${` for",
        ),
        ("${env:s3cr3t}", "a: found ${env…}, which is not a variable; expected ${NAME}, ${NAME:-text}, ${file:PATH}"),
        ("${ TICK_TOKEN }", "a: found ${ TICK_TOKEN }, which is not a variable; expected ${TICK_TOKEN}, or"),
        ("${TICK_TOKEN:-${B}}", "a: found ${TICK_TOKEN…}, which is not a variable; expected ${NAME}, ${NAME:-text},"),
        ("Bearer ${FILE:tok.txt}", "a: found ${FILE:…}, which is not a variable; expected ${file:PATH}, or"),
        ("${Command:pass show api}", "a: found ${Command:…}, which is not a variable; expected ${command:...}, or"),
        ("${TICK-TOKEN}", "a: found ${TICK-TOKEN}, which is not a variable; expected ${TICK_TOKEN}, or `$${` for the"),
        ("${TICK-s3cr3t}", "a: found ${TICK…}, which is not a variable; expected ${NAME}, ${NAME:-text}, ${file:PATH}"),
        ("${vault:x}", "a: found ${vault…}, which is not a variable"),
    ],
)
def test_what_looks_like_a_variable_and_is_none_is_not_sent_as_it_is(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        with_variables({"a": text}, ENVIRON, dotted)

    assert str(error.value).startswith(said)
    assert with_variables(text.replace("${", "$${"), ENVIRON, dotted) == text


def test_values_are_secrets_and_defaults_are_not() -> None:
    secrets = Secrets()

    with_variables("${SET} ${UNSET:-default}", ENVIRON, dotted, secrets)

    assert secrets.mask("value default") == "**** default"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${TABLES}", "/srv/lake of shops/v1.2"),
        ("${TABLES}", "../tables-2"),
        ("${TABLES:-tables}", "~/tables"),
        ("${TABLES}", "s3://lake/a/b"),
        ("${TABLES}", "abfss://container@account.dfs.core.windows.net/lake"),
        ("/srv/${TABLES}/a", "shop_2"),
        ("${TABLES}", "10"),
    ],
)
def test_what_is_put_where_no_secret_belongs_is_shown(text: str, value: str) -> None:
    secrets = Secrets()

    with_variables({"at": {"path": text}}, {"TABLES": value}, dotted, secrets, plain={("at", "path")})

    assert not secrets.holds(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TABLES", "s3://AKIA:s3cr3t@lake/a"),
        ("TABLES", "https://s3cr3t@lake.test/a"),
        ("TABLES", "s3cr3t@lake"),
        ("TABLES", "user:s3cr3t"),
        ("TABLES", "https://lake.test/a?sig=s3cr3t"),
        ("TABLES", '{"password": "s3cr3t"}'),
        ("TABLES", "s3cr3t+/=="),
        ("TABLES", "-----BEGIN KEY-----\ns3cr3t"),
        ("API_KEY", "s3cr3t"),
        ("file:tables.txt", "s3cr3t"),
        ("command:pass show tables", "s3cr3t"),
    ],
)
def test_what_may_be_a_secret_is_one_wherever_it_is_put(name: str, value: str) -> None:
    secrets = Secrets()

    with_variables({"path": f"${{{name}}}"}, {name: value}, dotted, secrets, plain={("path",)})

    assert secrets.mask(f"a text with {value} in it") == "a text with **** in it"


def test_a_value_that_is_put_elsewhere_too_is_a_secret() -> None:
    secrets = Secrets()

    with_variables({"path": "${A}", "config": {"path": "${A}"}}, {"A": "s3cr3t"}, dotted, secrets, plain={("path",)})

    assert secrets.holds("s3cr3t")


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("PORT", "8080", False),
        ("SHOP_PORT", "65535", False),
        ("PORT", "hunter2", True),
        ("PORT", "123456", True),
        ("SUPPORT", "8080", True),
        ("PASSWORD_PORT", "8080", True),
        ("PIN", "8080", True),
    ],
)
def test_the_number_of_a_port_is_no_secret(name: str, value: str, *, hidden: bool) -> None:
    secrets = Secrets()

    with_variables({"config": f"http://127.0.0.1:${{{name}}}"}, {name: value}, dotted, secrets)

    assert secrets.holds(value) is hidden


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
