import pytest

from cdk import ConfigError, JsonSchema
from cdk.sources.schema_errors import misfits

SCHEMA: JsonSchema = {
    "type": "object",
    "required": ["host", "auth"],
    "additionalProperties": False,
    "properties": {
        "host": {"type": "string"},
        "region": {"enum": ["eu", "us"]},
        "ports": {"type": "array", "items": {"type": "integer", "maximum": 9}},
        "auth": {
            "oneOf": [
                {
                    "required": ["key"],
                    "properties": {"kind": {"const": "key"}, "key": {"type": "string", "airbyte_secret": True}},
                },
                {
                    "required": ["user", "password"],
                    "properties": {
                        "kind": {"const": "login"},
                        "user": {"type": "string"},
                        "password": {"type": "string", "minLength": 8, "airbyte_secret": True},
                    },
                },
            ]
        },
    },
}

KEY = {"kind": "key", "key": "hunter2"}


def test_every_misfit_is_told_with_its_place() -> None:
    told = misfits({"hots": "h", "region": "asia", "ports": [1, "x", 10], "auth": KEY}, SCHEMA)

    assert set(told) == {
        "host: found nothing ('hots' is unknown), expected a value",
        "hots: is unknown; did you mean 'host'?",
        "region: found 'asia', expected enum ['eu', 'us']",
        "ports[1]: found 'x', expected type 'integer'",
        "ports[2]: found 10, expected maximum 9",
    }
    assert len(told) == 5


def test_what_fits_has_no_misfits() -> None:
    assert misfits({"host": "h", "ports": [1], "auth": KEY}, SCHEMA) == []


def test_of_several_shapes_the_one_that_was_meant_is_explained() -> None:
    told = misfits({"host": "h", "auth": {"kind": "login", "password": "longenough"}}, SCHEMA)

    assert told == ["auth.user: found nothing, expected a value"]


def test_what_is_in_an_object_is_not_shown_since_a_misspelt_secret_may_be_there() -> None:
    told = misfits({"host": {"pasword": "hunter2"}, "auth": KEY}, SCHEMA)

    assert told == ["host: found an object with pasword, expected type 'string'"]


def test_a_schema_that_is_none_is_the_connectors_fault() -> None:
    with pytest.raises(ConfigError, match="config_schema is no JSON Schema"):
        misfits({}, {"properties": {"a": {"type": "strnig"}}})
