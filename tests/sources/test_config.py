import pytest

from cdk import ConfigError, JsonSchema
from cdk.base.secret_masking import Secrets
from cdk.base.values import Json
from cdk.declarative.manifest import Manifest
from cdk.declarative.source import ManifestSource
from cdk.sources.config import check_config, prepared_config
from cdk.streams.source import Events, Source

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
        "c.json: host: found 5, expected a string",
        "c.json: auth: found nothing, expected a value",
    }


def test_secrets_are_not_shown_even_where_they_are_wrong() -> None:
    with pytest.raises(ConfigError) as raised:
        check_config({"host": "h", "auth": {"password": "hunter2"}}, SCHEMA, "c.json", Secrets())

    assert str(raised.value) == "c.json: auth.password: found '****', expected minLength 8"


class Saved(Events):
    """Keeps the configs that it is told to save."""

    def __init__(self) -> None:
        self.configs: list[Json] = []

    def config_changed(self, config: Json) -> None:
        self.configs.append(config)


def add(name: str, value: str, condition: str = "") -> Json:
    return {"type": "ConfigAddFields", "fields": [{"path": [name], "value": value}], "condition": condition}


def test_defaults_come_after_migrations_and_before_transformations() -> None:
    renamed = add("site", "{{ config.domain }}", "{{ 'site' not in config and 'domain' in config }}")
    rules = {
        "type": "ConfigNormalizationRules",
        "config_migrations": [{"type": "ConfigMigration", "transformations": [renamed]}],
        "transformations": [add("host", "api.{{ config.site }}")],
    }
    schema = {
        "type": "object",
        "required": ["site"],
        "properties": {"site": {"type": "string", "default": "shop.test"}},
    }
    source = ManifestSource(
        Manifest(
            {
                "version": "6.0.0",
                "type": "DeclarativeSource",
                "check": {"type": "CheckStream", "stream_names": []},
                "spec": {"type": "Spec", "connection_specification": schema, "config_normalization_rules": rules},
                "streams": [],
            }
        )
    )
    source.events = saved = Saved()

    def prepared(config: Json) -> Json:
        return prepared_config(config, source, "c.json", Secrets())

    assert prepared({}) == {"site": "shop.test", "host": "api.shop.test"}
    assert saved.configs == []
    assert prepared({"domain": "old.test"}) == {"domain": "old.test", "site": "old.test", "host": "api.old.test"}
    assert saved.configs == [{"domain": "old.test", "site": "old.test"}]


def test_a_secret_default_is_a_secret() -> None:
    source, secrets = Source(), Secrets()
    source.config_schema = {"properties": {"key": {"type": "string", "airbyte_secret": True, "default": "demo-key"}}}

    assert prepared_config({}, source, "c.json", secrets) == {"key": "demo-key"}
    assert secrets.mask("demo-key") == "****"
