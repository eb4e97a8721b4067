"""Handles the events of a source in a command of the protocol: new secrets, changed configs, and rate limits."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from cdk.base.logs import logger
from cdk.base.times.clock import system_clock
from cdk.base.values import JsonValue
from cdk.cli.output import Output
from cdk.protocol.catalog import StreamDescriptor
from cdk.protocol.messages import (
    AirbyteControlConnectorConfigMessage,
    AirbyteControlMessage,
    AirbyteMessage,
    OrchestratorType,
    Type,
)
from cdk.protocol.reports import milliseconds, status_line
from cdk.protocol.traces import AirbyteStreamStatus
from cdk.sources.config_file import save_config
from cdk.streams.source import Events


class ProtocolEvents(Events):
    """Handles the events of a source in a command of the protocol.

    config: the file that a changed config is written to, as Airbyte does. A YAML file is not changed, since its
    comments would be lost.
    """

    def __init__(self, output: Output, config: Path | None) -> None:
        self._output, self._config = output, config

    def learned(self, secret: str) -> None:
        self._output.secrets.add(secret)

    def config_changed(self, config: Mapping[str, JsonValue]) -> None:
        if self._config is not None and (why := save_config(self._config, config)) is not None:
            logger.warning(
                "the config has changed, but its file could not be updated: %s; use the config of the CONTROL message",
                why,
            )
        content = AirbyteControlConnectorConfigMessage(config=dict(config))
        control = AirbyteControlMessage(
            type=OrchestratorType.CONNECTOR_CONFIG,
            emitted_at=float(milliseconds(system_clock())),
            connector_config=content,
        )
        self._output.write_message(AirbyteMessage(type=Type.CONTROL, control=control))

    def waiting(self, stream: str, seconds: float) -> None:
        now, descriptor = system_clock(), StreamDescriptor(name=stream)
        until = now + timedelta(seconds=seconds)
        self._output.write(status_line(descriptor, AirbyteStreamStatus.RUNNING, now, limited_until=until))
