import json
from pathlib import Path

import pytest

from cdk import ConfigError, Json, JsonSchema, Source
from cdk.base.secret_masking import Secrets
from cdk.cli.config_file import load_config
from tests.cli.conftest import CommandLine


class Strict(Source):
    config_schema: JsonSchema = {  # noqa: RUF012 - read only
        "type": "object",
        "required": ["host", "key"],
        "properties": {"host": {"type": "string"}, "key": {"type": "string", "minLength": 8, "airbyte_secret": True}},
    }


def refusal(path: Path, config: Json) -> str:
    file = path / "config.json"
    file.write_text(json.dumps(config))
    with pytest.raises(ConfigError) as raised:
        load_config(file, Strict(), Secrets())
    return str(raised.value).replace(str(path) + "/", "")


def test_a_config_that_fits_comes_back_and_its_secrets_are_known(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("host: h\nkey: hunter2hunter2\n")
    secrets = Secrets()

    config = load_config(tmp_path / "c.yaml", Strict(), secrets)

    assert config == {"host": "h", "key": "hunter2hunter2"}
    assert secrets.mask("hunter2hunter2") == "****"


def test_a_source_that_asks_for_nothing_needs_no_config() -> None:
    assert load_config(None, Source(), Secrets()) == {}


def test_without_a_config_what_is_required_is_named() -> None:
    with pytest.raises(ConfigError, match="no --config was given: host: found nothing, expected a value"):
        load_config(None, Strict(), Secrets())


def test_every_place_that_does_not_fit_is_named_with_the_file_and_no_secret(tmp_path: Path) -> None:
    assert set(refusal(tmp_path, {"host": 5, "key": "hunter2"}).splitlines()) == {
        "config.json:1 host: found 5, expected a string",
        "config.json:1 key: found '****', expected minLength 8",
    }


def test_a_config_must_be_an_object(tmp_path: Path) -> None:
    for value, said in (([1], "a list"), (None, "null"), ("x", "a string"), (True, "a boolean"), (1.5, "a number")):
        assert refusal(tmp_path, value) == f"config.json: found {said}, expected an object"


def test_variables_of_the_environment_are_put_in_and_are_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "hunter2hunter2")
    (tmp_path / "c.json").write_text('{"host": "a.${SHOP_KEY}.test", "key": "${SHOP_KEY}"}')
    secrets = Secrets()

    config = load_config(tmp_path / "c.json", Strict(), secrets)

    assert config == {"host": "a.hunter2hunter2.test", "key": "hunter2hunter2"}
    assert secrets.mask("hunter2hunter2") == "****"


def test_a_variable_that_is_not_set_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_KEY", raising=False)

    told = refusal(tmp_path, {"host": "h", "key": "${SHOP_KEY}"})

    assert told.startswith("config.json:1 key: the environment variable SHOP_KEY is not set")


def test_files_and_commands_are_for_pipelines_and_for_configs_that_are_trusted(
    cli: CommandLine, guarded: str, tmp_path: Path
) -> None:
    (tmp_path / "c.json").write_text('{"api_key": "${command:echo right}"}')
    (tmp_path / "token").write_text("right\n")
    pipeline = f"name: a\nsource: {{connector: {guarded}, config: {{api_key: '${{file:token}}'}}}}\n"
    (tmp_path / "p.yaml").write_text(pipeline + "target: {path: tables}\n")
    check = ("check", "--connector", guarded, "--config", "c.json")

    plain, trusted = cli(*check), cli(*check, "--allow-custom-code")
    tried, validated = cli("check", "p.yaml"), cli("validate", "p.yaml")

    where = "c.json:1 api_key: the command `echo …` is only resolved for a pipeline, or with --allow-custom-code"
    assert plain.messages[-1]["connectionStatus"] == {"status": "FAILED", "message": where}
    assert trusted.messages[-1]["connectionStatus"] == {"status": "SUCCEEDED"}
    assert "✓ source: its check succeeded" in tried.lines
    assert validated.lines == [
        "p.yaml:2 source.config.api_key: warning: the file `token` is not resolved by this command"
    ]
