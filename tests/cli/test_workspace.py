import json
from pathlib import Path

import pytest

from cdk.authoring.new_connector import new_connector
from cdk.base.errors import ConfigError
from cdk.base.secret_masking import Secrets
from cdk.cli.workspace import Workspace, masked

PLANTED = {
    "by the spec": "marked-by-its-spec",
    "by the environment": "out-of-the-environment",
    "by its name": "called-a-secret",
}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    new_connector("things", "yaml", tmp_path / "things")
    manifest = tmp_path / "things" / "manifest.yaml"
    manifest.write_text(manifest.read_text().replace("token: {type", "code: {type").replace("[token]", "[code]"))
    config = {"code": PLANTED["by the spec"], "host": "${HOST_OF_THINGS}", "session": PLANTED["by its name"]}
    pipeline = {"name": "x", "source": {"manifest": "manifest.yaml", "config": config}, "target": {"path": "tables"}}
    (tmp_path / "things" / "pipeline.yaml").write_text(json.dumps(pipeline))
    (tmp_path / "things" / ".env").write_text(f"HOST_OF_THINGS={PLANTED['by the environment']}")
    return Workspace(tmp_path, trusted=False)


@pytest.mark.parametrize("secret", PLANTED.values(), ids=PLANTED.keys())
def test_a_secret_of_a_pipeline_is_known_before_it_is_looked_at(workspace: Workspace, secret: str) -> None:
    secrets = Secrets()
    workspace.pipeline("things/pipeline.yaml", secrets)

    assert secrets.holds(f"a text with {secret} in it")
    assert not secrets.holds("a text with things in it")


def test_a_pipeline_with_a_misspelt_key_is_looked_at_as_one(workspace: Workspace, tmp_path: Path) -> None:
    pipeline = tmp_path / "things" / "pipeline.yaml"
    pipeline.write_text(pipeline.read_text().replace('"target"', '"tagret"'))
    secrets = Secrets()
    workspace.file("things/pipeline.yaml", secrets)

    assert secrets.holds(f"a text with {PLANTED['by its name']} in it")


def test_what_lies_in_an_env_file_is_a_secret_though_no_file_names_it(workspace: Workspace, tmp_path: Path) -> None:
    pipeline = tmp_path / "things" / "pipeline.yaml"
    pipeline.write_text(pipeline.read_text().replace('"path": "tables"', '"path": "${TABLES}"'))
    with (tmp_path / "things" / ".env").open("a") as file:
        file.write("\nTABLES=/Data/Of-2024\nOTHER=unused-4711\nSTAGE=production\n")
    secrets = Secrets()

    workspace.pipeline("things/pipeline.yaml", secrets)

    assert secrets.mask("unused-4711 in /Data/Of-2024 of production") == "**** in /Data/Of-2024 of production"


@pytest.mark.parametrize("text", ["${file:/etc/hostname}", "${command:touch here}"])
def test_a_server_that_is_not_trusted_reads_no_file_and_runs_no_command_for_a_value(
    workspace: Workspace, tmp_path: Path, text: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"login": [{"code": text}]}))

    with pytest.raises(ConfigError, match="refers to values in files or of commands"):
        workspace.file("config.json", Secrets())

    assert not (tmp_path / "here").exists()
    assert str(Workspace(tmp_path, trusted=True).file("config.json", Secrets())) == "config.json"
    assert (tmp_path / "here").exists() is ("command" in text)


def test_what_has_the_name_of_a_secret_is_hidden_whoever_wrote_it() -> None:
    answer = {"password": "abc", "next": {"api_key": 7, "page_token": "p2"}, "items": [{"secret": {"x": "left"}}]}

    assert masked(answer, Secrets()) == {
        "password": "****",
        "next": {"api_key": "****", "page_token": "p2"},
        "items": [{"secret": {"x": "left"}}],
    }
