"""The plugin of pytest: the suite for a connector without a test file, and snapshots that are updated.

pytest loads it in every run, so all else is imported where an option asks for it.
`pytest --connector MODULE_OR_FILE --connector-config FILE` runs `ConnectorSuite` for a connector.
"""

import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("spark-cdk")
    group.addoption(
        "--connector",
        metavar="NAME",
        help="Run the tests that every connector passes: a module, a .py file, a manifest.",
    )
    group.addoption("--connector-config", metavar="FILE", help="A config that works, JSON or YAML.")
    group.addoption("--connector-cassette", metavar="FILE", help="What `spark-cdk record` wrote, for the network.")
    group.addoption("--update-snapshots", action="store_true", help="Write snapshots of reads anew.")


def pytest_configure(config: pytest.Config) -> None:
    """Have the suite collected, besides the tests that were named."""
    if config.getoption("--update-snapshots"):
        from cdk.testing.snapshots import UPDATE  # noqa: PLC0415 - see the module

        os.environ[UPDATE] = "1"
    if (name := config.getoption("--connector")) is not None:
        tests = _chosen(str(name), config.getoption("--connector-config"), config.getoption("--connector-cassette"))
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = []
        if tests not in config.args:
            config.args.append(tests)


def _chosen(name: str, path: str | None, cassette: str | None) -> str:
    """The file of tests for a connector with the config in a file. Raises UsageError: there is none."""
    from cdk.base.errors import CdkError, ConfigError  # noqa: PLC0415 - see the module
    from cdk.base.values import dotted, json_kind  # noqa: PLC0415
    from cdk.base.yaml_file import YamlFile  # noqa: PLC0415
    from cdk.sources.variables import with_variables  # noqa: PLC0415
    from cdk.testing.conformance import chosen  # noqa: PLC0415
    from cdk.testing.run import connector  # noqa: PLC0415

    try:
        document = {} if path is None else YamlFile.load(Path(path)).value
        config = with_variables(document, os.environ, lambda keys: f"{path} {dotted(keys)}")
        if not isinstance(config, dict):
            raise ConfigError(f"found {json_kind(document)}, expected an object", path=str(path))
        chosen.choose(connector(name), config, cassette)
    except CdkError as error:
        raise pytest.UsageError(f"--connector {name}: {error}") from error
    return chosen.__file__
