"""The suite for the connector named by `pytest --connector`; the plugin adds this module to the collected tests."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from cdk.base.documents import location_in, read_document
from cdk.base.errors import CdkError, ConfigError
from cdk.base.values import FieldValue, json_kind
from cdk.sources.environment import environment
from cdk.sources.variables import with_variables
from cdk.streams.source import Source
from cdk.testing.conformance.suite import ConnectorSuite, SparkConnectorSuite
from cdk.testing.run import connector


class TestConnector(ConnectorSuite):
    """The conformance suite for the chosen connector."""

    source: ClassVar[Source]
    config: ClassVar[Mapping[str, FieldValue]]


def choose(name: str, path: str | None, cassette: str | None) -> None:
    """Set the connector, its config file, and the cassette that replaces the network.

    name: a module, a `.py` file or a manifest. Raises UsageError: when the connector is missing or the config invalid.
    """
    try:
        file = Path(path or "")
        document = {} if path is None else read_document(file)
        config = with_variables(document, environment(file.parent), partial(location_in, file))
        if not isinstance(config, dict):
            raise ConfigError(f"found {json_kind(document)}, expected an object", path=str(path))
        TestConnector.source, TestConnector.config, TestConnector.cassette = connector(name), config, cassette
    except CdkError as error:
        raise pytest.UsageError(f"--connector {name}: {error}") from error


def read_on_spark() -> None:
    """Add the test that reads the connector in tasks on Spark."""
    test = SparkConnectorSuite.test_tasks_on_spark_bring_the_same
    setattr(TestConnector, test.__name__, test)
