"""Values of the environment in files that people write."""

import pytest

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.base.values import Json, dotted
from cdk.sources.variables import has_lookups, named_values, with_variables

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


def test_all_that_are_unset_are_named_with_their_places() -> None:
    with pytest.raises(ConfigError) as refused:
        with_variables({"a": "${ONE} ${TWO:-x}", "b": ["${THREE}"]}, ENVIRON, dotted)

    assert [line.partition(" is not")[0] for line in str(refused.value).splitlines()] == [
        "a: the environment variable ONE",
        "b[0]: the environment variable THREE",
    ]


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


def test_values_of_variables_are_named_wherever_they_are_used() -> None:
    value: Json = {"a": ["${SET} $${EMPTY}", {"b": "${UNSET:-x}"}], "c": 1}

    assert named_values(value, ENVIRON) == {"value"}


@pytest.mark.parametrize(
    ("value", "found"), [({"a": ["${file:x}"]}, True), ("${command:x y}", True), (["$${file:x}", "${SET}", 1], False)]
)
def test_lookups_are_found_at_any_depth(value: Json, *, found: bool) -> None:
    assert has_lookups(value) is found
