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


def choose(source: Source, config: Mapping[str, FieldValue], cassette: str | None) -> None:
    """Set the connector, its config and what answers in place of the network."""
    TestConnector.source, TestConnector.config, TestConnector.cassette = source, config, cassette
