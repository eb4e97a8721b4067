import json

import pytest

from cdk.base.masking import Secrets, secret_values

SCHEMA = {
    "properties": {
        "host": {"type": "string"},
        "token": {"type": "string", "airbyte_secret": True},
        "pin": {"type": "integer", "airbyte_secret": True},
        "credentials": {
            "oneOf": [
                {"properties": {"kind": {"const": "key"}, "api_key": {"airbyte_secret": True}}},
                {
                    "properties": {
                        "kind": {"const": "oauth"},
                        "client": {"properties": {"secret": {"airbyte_secret": True}}},
                    }
                },
            ]
        },
        "accounts": {"items": {"properties": {"password": {"airbyte_secret": True}}}},
        "headers": {"type": "object", "airbyte_secret": True},
    }
}


def test_secrets_are_found_wherever_the_schema_marks_them() -> None:
    config = {
        "host": "h",
        "token": "T",
        "pin": 1234,
        "credentials": {"kind": "oauth", "api_key": "K", "client": {"secret": "S"}},
        "accounts": [{"password": "P1"}, {"password": "P2"}],
        "headers": {"X-Auth": "H", "deep": ["D", None, True]},
    }

    assert set(secret_values(SCHEMA, config)) == {"T", "1234", "K", "S", "P1", "P2", "H", "D"}


def test_a_config_of_another_shape_has_no_secrets_and_no_error() -> None:
    assert list(secret_values(SCHEMA, {"credentials": "text", "accounts": {"password": "x"}, "token": ""})) == []


def test_the_longest_secret_is_hidden_first() -> None:
    assert Secrets(["abc", "abcdef"]).mask("x abcdef y abc") == "x **** y ****"


@pytest.mark.parametrize(
    "spell", [str, json.dumps, repr, lambda s: s.replace(" ", "+").replace('"', "%22").replace("\n", "%0A")]
)
def test_a_secret_is_hidden_in_other_spellings(spell: object) -> None:
    secret = 'a "b"\nc'

    assert callable(spell)
    masked = Secrets([secret]).mask(f"before {spell(secret)} after")

    assert "b" not in masked.removeprefix("before")
    assert "****" in masked


def test_secrets_learned_during_a_run_are_hidden_too() -> None:
    secrets = Secrets()
    assert secrets.mask("tok") == "tok"

    secrets.add("tok", "")

    assert secrets.mask("tok") == "****"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": "no"},
        {"properties": {"token": "no"}},
        {"oneOf": 1},
        {"anyOf": [None]},
        {"properties": {"token": 1}},
    ],
)
def test_a_schema_that_is_none_hides_nothing(schema: dict[str, object]) -> None:
    assert list(secret_values(schema, {"token": "t"})) == []
