"""Saves a config that a run has changed, for example with a new refresh token, to the file that it came from."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from cdk.base.logs import logger
from cdk.base.process.durable_files import replace_file
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue
from cdk.streams.source import Events


class ConfigEvents(Events):
    """Handles the events of a running source: adds secrets to the mask, and saves a changed config to its file, if any.

    The file is not the only copy: the target stores rotated tokens, too.
    """

    def __init__(self, secrets: Secrets, config: Path | None) -> None:
        self._secrets, self._config = secrets, config

    def learned(self, secret: str) -> None:
        self._secrets.add(secret)

    def config_changed(self, config: Mapping[str, JsonValue]) -> None:
        if self._config is not None and (why := save_config(self._config, config)) is not None:
            logger.info("the config has changed, but not its file: %s", why)


def save_problem(path: Path) -> str | None:
    """Return the reason why a changed config cannot be saved to this file, or None if it can.

    YAML files are not rewritten because their comments would be lost, files with variables because the config holds
    the values in place of the variables.
    """
    if path.suffix in (".yaml", ".yml"):
        return f"{path} is a YAML file and is not rewritten"
    try:
        if "${" in path.read_text(encoding="utf-8"):
            return f"{path} contains variables and is not rewritten"
    except OSError as error:
        return f"it cannot be saved ({error})"
    return None if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else f"{path} cannot be written"


def save_config(path: Path, config: Mapping[str, JsonValue]) -> str | None:
    """Replace the file atomically: a crash must not lose the only copy of a token. Returns None, or why it failed."""
    if (why := save_problem(path)) is not None:
        return why
    draft_path = path.with_name(f".{path.name}.new")
    try:
        mode = path.stat().st_mode & 0o777
        replace_file(path, json.dumps(config, indent=2).encode(), draft=draft_path, mode=mode)
        path.chmod(mode)  # the umask may have removed bits when the file was created
    except OSError as error:
        return f"it cannot be saved ({error})"
    return None
