"""Values of the environment in files that people write."""

from pathlib import Path

import pytest

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.values import Json, dotted
from cdk.sources.variables import PartialEnvironment, SecretEnvironment, environment, with_variables

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


def test_values_are_secrets_and_defaults_are_not() -> None:
    secrets = Secrets()

    with_variables("${SET} ${UNSET:-default}", SecretEnvironment(ENVIRON, secrets), dotted)

    assert secrets.mask("value default") == "**** default"


def test_a_file_beside_says_what_the_environment_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("# names\nexport TOKEN='s3cret # no comment'\nHERE=file\nRAW=${HERE}\nEMPTY\n")
    monkeypatch.setenv("HERE", "environment")

    environ = environment(tmp_path)

    assert (environ["TOKEN"], environ["HERE"], environ["RAW"]) == ("s3cret # no comment", "environment", "${HERE}")
    assert "EMPTY" not in environ


def test_a_file_that_cannot_be_read_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=\xff\n")

    with pytest.raises(ConfigError, match=r"\.env: cannot be read"):
        environment(tmp_path)
