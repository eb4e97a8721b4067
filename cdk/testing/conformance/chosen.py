"""The suite for the connector that `pytest --connector` names; the plugin has it collected."""

from collections.abc import Mapping
from typing import ClassVar

from cdk.base.values import FieldValue
from cdk.streams.source import Source
from cdk.testing.conformance.suite import ConnectorSuite


class TestConnector(ConnectorSuite):
    """What every connector must do."""

    source: ClassVar[Source]
    config: ClassVar[Mapping[str, FieldValue]]


def choose(source: Source, config: Mapping[str, FieldValue]) -> None:
    """Set the connector and its config."""
    TestConnector.source, TestConnector.config = source, config
