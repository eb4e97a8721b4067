import pytest

from cdk import ConfigError, JsonSchema
from cdk.base.masking import Secrets
from cdk.sources.config import check_config

SCHEMA: JsonSchema = {
    "type": "object",
    "required": ["host", "auth"],
    "properties": {
        "host": {"type": "string"},
        "auth": {
            "type": "object",
            "properties": {"password": {"type": "string", "minLength": 8, "airbyte_secret": True}},
        },
    },
}


def test_the_secrets_of_a_config_that_fits_are_known_afterwards() -> None:
    secrets = Secrets()

    check_config({"host": "h", "auth": {"password": "hunter2hunter2"}}, SCHEMA, "c.json", secrets)

    assert secrets.mask("hunter2hunter2") == "****"


def test_each_place_that_does_not_fit_is_a_line_that_begins_with_where_the_config_is_from() -> None:
    with pytest.raises(ConfigError) as raised:
        check_config({"host": 5}, SCHEMA, "c.json", Secrets())

    assert set(str(raised.value).splitlines()) == {
        "c.json: host: found 5, expected type 'string'",
        "c.json: auth: found nothing, expected a value",
    }


def test_secrets_are_not_shown_even_where_they_are_wrong() -> None:
    with pytest.raises(ConfigError) as raised:
        check_config({"host": "h", "auth": {"password": "hunter2"}}, SCHEMA, "c.json", Secrets())

    assert str(raised.value) == "c.json: auth.password: found '****', expected minLength 8"
