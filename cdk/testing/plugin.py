"""The pytest plugin: runs the suite for a connector that has no test file, and updates snapshots.

pytest loads it in every run, so everything else is imported only when an option needs it.
`pytest --connector MODULE_OR_FILE --connector-config FILE` runs `ConnectorSuite` for a connector.
"""

import os

import pytest

UPDATE = "CDK_UPDATE_SNAPSHOTS"
"""The environment variable that makes tests rewrite snapshots. `--update-snapshots` sets it, also for xdist workers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for connectors and snapshots."""
    group = parser.getgroup("spark-cdk")
    group.addoption(
        "--connector",
        metavar="NAME",
        help="Run the tests that every connector passes: a module, a .py file, a manifest.",
    )
    group.addoption("--connector-config", metavar="FILE", help="A config that works, JSON or YAML.")
    group.addoption(
        "--connector-cassette", metavar="FILE", help="A cassette of `spark-cdk record`, in place of the network."
    )
    group.addoption("--connector-spark", action="store_true", help="Read it in tasks on a local Spark, too.")
    group.addoption("--update-snapshots", action="store_true", help="Rewrite the snapshots of reads.")


def pytest_configure(config: pytest.Config) -> None:
    """Add the suite to the tests that pytest collects, when `--connector` names a connector."""
    if config.getoption("--update-snapshots"):
        os.environ[UPDATE] = "1"
    if (name := config.getoption("--connector")) is not None:
        from cdk.testing.conformance import chosen  # noqa: PLC0415 - see the module

        chosen.choose(str(name), config.getoption("--connector-config"), config.getoption("--connector-cassette"))
        if config.getoption("--connector-spark"):
            chosen.read_on_spark()
        tests = chosen.__file__
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = []
        if tests not in config.args:
            config.args.append(tests)
