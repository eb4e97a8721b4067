"""Manifests on the page: edited as text, and saved where nothing is wrong."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from cdk.base.errors import ConfigError
from cdk.base.secret_masking import HIDDEN, Secrets
from cdk.cli.authoring.validate import CheckedFile, check_files
from cdk.cli.workspace import Workspace

MANIFESTS = {".yaml", ".yml"}


@dataclass(frozen=True)
class EditedManifest:
    """A manifest as a person edits it. version: of the file that they began with."""

    text: str
    version: str


def open_manifest(path: Path) -> EditedManifest:
    """The manifest in a file. Raises ConfigError: it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", path=str(path)) from error
    return EditedManifest(text, hashlib.sha256(text.encode()).hexdigest())


def check_manifest(workspace: Workspace, path: Path, secrets: Secrets) -> CheckedFile:
    """What is wrong with the manifest in a file."""
    (checked,) = check_files([path], None, secrets, kind="manifest", trusted=workspace.trusted)
    return checked


def save_manifest(workspace: Workspace, path: Path, edited: EditedManifest, secrets: Secrets) -> CheckedFile:
    """Put a manifest into its file if it is valid; else the file stays.

    Raises ConfigError: the file has changed meanwhile, or the text has a masked secret, which would be lost.
    """
    before = open_manifest(path)
    if before.version != edited.version:
        raise ConfigError("has changed since it was opened here; copy your text, open it again", path=str(path))
    if edited.text.count(HIDDEN) > before.text.count(HIDDEN):
        how = "put it into the config, and name it here as {{ config['...'] }}, in your editor"
        raise ConfigError(f"found {HIDDEN} in place of a secret of the file, expected none: {how}", path=str(path))
    # Beside it: paths in a manifest are relative to its folder.
    draft = path.with_name(f".{path.stem}.draft{path.suffix}")
    try:
        shutil.copyfile(path, draft)
        shutil.copymode(path, draft)
        draft.write_text(edited.text, encoding="utf-8", newline="")
        checked = check_manifest(workspace, draft, secrets)
        if checked.valid:
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return checked
