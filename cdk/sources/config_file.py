"""The file of a config, which gets what a run changes of it, such as a new refresh token."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from cdk.base.logs import logger
from cdk.base.process.durable_files import replace_file
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue
from cdk.streams.source_events import Events


class ConfigEvents(Events):
    """What a source says while it runs: secrets go to the mask, a changed config to its file, if there is one.

    It is not the only copy: the target keeps rotated tokens, too.
    """

    def __init__(self, secrets: Secrets, config: Path | None) -> None:
        self._secrets, self._config = secrets, config

    def learned(self, secret: str) -> None:
        self._secrets.add(secret)

    def config_changed(self, config: Mapping[str, JsonValue]) -> None:
        if self._config is not None and (why := save_config(self._config, config)) is not None:
            logger.info("the config has changed; %s", why)


def cannot_save(path: Path) -> str | None:
    """Why this file does not take a changed config; None where it does.

    Left alone are YAML files, whose comments would be lost, and files with variables: values have come in their place.
    """
    if path.suffix in (".yaml", ".yml"):
        return f"{path} is YAML and stays as it is"
    try:
        if "${" in path.read_text(encoding="utf-8"):
            return f"{path} has variables and stays as it is"
    except OSError as error:
        return f"it cannot be saved ({error})"
    return None if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else f"{path} cannot be written"


def save_config(path: Path, config: Mapping[str, JsonValue]) -> str | None:
    """Replace the file in one step: a crash in between must not lose the only copy of a token. None, or why not."""
    if (why := cannot_save(path)) is not None:
        return why
    beside = path.with_name(f".{path.name}.new")
    try:
        mode = path.stat().st_mode & 0o777
        replace_file(path, json.dumps(config, indent=2).encode(), draft=beside, mode=mode)
        path.chmod(mode)  # without what the umask takes
    except OSError as error:
        return f"it cannot be saved ({error})"
    return None
