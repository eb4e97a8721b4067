import json
from pathlib import Path

import pytest

from cdk import ConfigError, Json, JsonSchema, Source
from cdk.base.masking import Secrets
from cdk.cli.config_file import load_config


class Strict(Source):
    config_schema: JsonSchema = {  # noqa: RUF012 - read only
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


def refusal(path: Path, config: Json) -> str:
    file = path / "config.json"
    file.write_text(json.dumps(config))
    with pytest.raises(ConfigError) as raised:
        load_config(file, Strict(), Secrets())
    return str(raised.value).replace(str(path) + "/", "")


def test_a_config_that_fits_comes_back_and_its_secrets_are_known(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("host: h\nauth:\n  kind: key\n  key: hunter2\n")
    secrets = Secrets()

    config = load_config(tmp_path / "c.yaml", Strict(), secrets)

    assert config == {"host": "h", "auth": {"kind": "key", "key": "hunter2"}}
    assert secrets.mask("hunter2") == "****"


def test_a_source_that_asks_for_nothing_needs_no_config() -> None:
    assert load_config(None, Source(), Secrets()) == {}


def test_without_a_config_what_is_required_is_named() -> None:
    with pytest.raises(ConfigError, match="no --config was given: host: found nothing, expected a value"):
        load_config(None, Strict(), Secrets())


def test_every_misfit_is_said_at_once(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"hots": "h", "region": "asia", "ports": [1, "x", 10], "auth": KEY})

    assert set(said.splitlines()) == {
        "config.json: host: found nothing ('hots' is unknown), expected a value",
        "config.json: hots: is unknown; did you mean 'host'?",
        "config.json: region: found 'asia', expected enum ['eu', 'us']",
        "config.json: ports[1]: found 'x', expected type 'integer'",
        "config.json: ports[2]: found 10, expected maximum 9",
    }


def test_of_several_shapes_the_one_that_was_meant_is_explained(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"host": "h", "auth": {"kind": "login", "password": "longenough"}})

    assert said == "config.json: auth.user: found nothing, expected a value"


def test_secrets_are_not_shown_even_where_they_are_wrong(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"host": "h", "auth": {"kind": "login", "user": "u", "password": "hunter2"}})

    assert said == "config.json: auth.password: found '****', expected minLength 8"


def test_what_is_in_an_object_is_not_shown_since_a_misspelt_secret_may_be_there(tmp_path: Path) -> None:
    said = refusal(tmp_path, {"host": {"pasword": "hunter2"}, "auth": KEY})

    assert said == "config.json: host: found an object with 'pasword', expected type 'string'"


def test_a_config_must_be_an_object(tmp_path: Path) -> None:
    assert refusal(tmp_path, [1]) == "config.json: found a list, expected an object"


def test_a_schema_that_is_none_is_the_connectors_fault() -> None:
    source = Source()
    source.config_schema = {"properties": {"a": {"type": "strnig"}}}

    with pytest.raises(ConfigError, match="config_schema is no JSON Schema"):
        load_config(None, source, Secrets())
