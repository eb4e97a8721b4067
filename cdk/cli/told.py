"""What a source tells while it runs, passed on: secrets to the mask, configs to the platform and to their file."""

import json
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from cdk.base.logs import logger
from cdk.base.times import system_clock
from cdk.base.values import Json
from cdk.cli.output import Output
from cdk.protocol import (
    AirbyteControlConnectorConfigMessage,
    AirbyteControlMessage,
    AirbyteMessage,
    AirbyteStreamStatus,
    OrchestratorType,
    StreamDescriptor,
    Type,
    status_line,
)
from cdk.streams.events import Events


class Told(Events):
    """Events of a command that speaks the protocol.

    config: the file that a changed config is written to, as Airbyte does; a YAML file is left alone, since its comments
    would be lost.
    """

    def __init__(self, output: Output, config: Path | None) -> None:
        self._output, self._config = output, config

    def learned(self, secret: str) -> None:
        self._output.secrets.add(secret)

    def config_changed(self, config: Mapping[str, Json]) -> None:
        if self._config is not None:
            self._save(self._config, config)
        content = AirbyteControlConnectorConfigMessage(config=dict(config))
        control = AirbyteControlMessage(
            type=OrchestratorType.CONNECTOR_CONFIG,
            emitted_at=system_clock().timestamp() * 1000,
            connector_config=content,
        )
        self._output.say(AirbyteMessage(type=Type.CONTROL, control=control))

    def waiting(self, stream: str, seconds: float) -> None:
        now, descriptor = system_clock(), StreamDescriptor(name=stream)
        until = now + timedelta(seconds=seconds)
        self._output.write(status_line(descriptor, AirbyteStreamStatus.RUNNING, now, limited_until=until))

    def _save(self, path: Path, config: Mapping[str, Json]) -> None:
        """Replace the file in one step: a crash in between must not lose the only copy of a token."""
        if path.suffix in (".yaml", ".yml"):
            logger.warning("the config has changed; %s is YAML and stays as it is: keep the CONTROL message's", path)
            return
        beside = path.with_name(f".{path.name}.new")
        try:
            with beside.open("w", encoding="utf-8") as file:
                beside.chmod(path.stat().st_mode & 0o777)
                json.dump(config, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            logger.warning("the config has changed and cannot be saved (%s): keep the CONTROL message's", error)
