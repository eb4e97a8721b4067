import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from cdk.testing.conformance import chosen

CONNECTOR = """
    from cdk import ConfigError, Source, Stream

    class Countries(Stream):
        primary_key = "code"
        schema = {"type": "object", "properties": {"code": {"type": "string"}}}

        def read_records(self, slice):
            if self.config["continent"] != "Europe":
                raise ConfigError("no such continent")
            yield {"code": "AT"}
            yield {"code": BETWEEN}

    class World(Source):
        stream_classes = (Countries,)
        config_schema = {
            "type": "object", "required": ["continent"], "properties": {"continent": {"type": "string"}},
        }
"""


def pytest_with(folder: Path, *arguments: str) -> tuple[int, str]:
    program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "cdk.testing.plugin", *arguments]
    ended = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_a_connector_is_tested_beside_test_files(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(dedent(CONNECTOR).replace("BETWEEN", "5"))
    (tmp_path / "test_other.py").write_text("def test_other(): assert True\n")
    (tmp_path / "config.json").write_text('{"continent": "Europe"}')
    config = ("--connector-config", "config.json")

    bad = pytest_with(tmp_path, "test_other.py", "--import-mode=importlib", "--connector", "bad.py", *config)

    assert bad[0] == 1
    assert "code: found 5, expected a string" in bad[1]
    assert "1 failed, 17 passed" in bad[1]


@pytest.mark.spark
def test_a_connector_is_read_on_spark_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(dedent(CONNECTOR).replace("BETWEEN", '"CH"'))
    (tmp_path / "config.json").write_text('{"continent": "Europe"}')

    config = ("--connector-config", "config.json")
    only = ("-k", "spark_bring", "--import-mode=importlib")
    ended = pytest_with(tmp_path, "--connector", "good.py", *config, "--connector-spark", *only)

    assert ended[0] == 0, ended[1]
    assert "1 passed, 17 deselected" in ended[1]


def test_a_config_that_is_not_right_is_an_error_of_usage(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(dedent(CONNECTOR).replace("BETWEEN", '"CH"'))
    (tmp_path / "config.yaml").write_text('continent: "${CONTINENT_OF_A_TEST}"\n')

    with pytest.raises(pytest.UsageError) as caught:
        chosen.choose(f"{tmp_path}/good.py", f"{tmp_path}/config.yaml", None)

    assert "config.yaml:1 continent: the environment variable CONTINENT_OF_A_TEST is not set" in str(caught.value)


def test_a_config_in_json_may_have_escapes_of_json(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(dedent(CONNECTOR).replace("BETWEEN", '"CH"'))
    (tmp_path / "config.json").write_text(json.dumps({"continent": "\U0001f600"}))

    chosen.choose(f"{tmp_path}/good.py", f"{tmp_path}/config.json", None)

    assert chosen.TestConnector.config == {"continent": "\U0001f600"}
