"""The plugin of pytest: the suite for a connector without a test file, snapshots that are updated, states compared.

`pytest --connector MODULE_OR_FILE --connector-config FILE` runs `ConnectorSuite` for a connector.
"""

import os
from pathlib import Path

import pytest

from cdk.base.errors import CdkError, ConfigError
from cdk.base.values import FieldValue, dotted, json_kind
from cdk.base.yaml_file import YamlFile
from cdk.sources.variables import with_variables
from cdk.testing import conformance
from cdk.testing.conformance.chosen import choose
from cdk.testing.run import connector
from cdk.testing.snapshots import UPDATE

_TESTS = Path(conformance.__file__).with_name("chosen.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("spark-cdk")
    group.addoption(
        "--connector",
        metavar="NAME",
        help="Run the tests that every connector passes: a module, a .py file, a manifest.",
    )
    group.addoption("--connector-config", metavar="FILE", help="A config that works, JSON or YAML.")
    group.addoption("--update-snapshots", action="store_true", help="Write snapshots of reads anew.")


def pytest_configure(config: pytest.Config) -> None:
    """Have the suite collected, besides the tests that were named."""
    if config.getoption("--update-snapshots"):
        os.environ[UPDATE] = "1"
    if (name := config.getoption("--connector")) is None:
        return
    try:
        choose(connector(str(name)), _config(config.getoption("--connector-config")))
    except CdkError as error:
        raise pytest.UsageError(f"--connector {name}: {error}") from error
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = []
    if str(_TESTS) not in config.args:
        config.args.append(str(_TESTS))


def _config(path: str | None) -> dict[str, FieldValue]:
    """The config in a file, with values of the environment in place of `${NAME}`. Raises ConfigError: it is none."""
    document = {} if path is None else YamlFile.load(Path(path)).value
    if not isinstance(document, dict):
        raise ConfigError(f"found {json_kind(document)}, expected an object", path=str(path))
    config = with_variables(document, os.environ, lambda keys: f"{path} {dotted(keys)}")
    assert isinstance(config, dict)
    return config
