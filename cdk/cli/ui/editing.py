"""Edits manifests on the page as text, and saves them if they are valid and contain no secrets."""

import hashlib
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cdk import sources
from cdk.authoring.manifest_secrets import plain_secrets
from cdk.authoring.problems import Problem, Problems
from cdk.base.errors import CdkError, ConfigError
from cdk.base.secret_masking import HIDDEN, Secrets
from cdk.base.values import Location
from cdk.base.yaml_file import YamlFile, read_text
from cdk.cli.authoring.validate import CheckedFile, check_files
from cdk.cli.config_file import load_config
from cdk.cli.workspace import Workspace

MANIFESTS = {".yaml", ".yml"}

_INSTEAD = "expected an expression; write {{ config['...'] }} there, and the value into the config, in your editor"


class EditedManifest(Struct, frozen=True):
    """The text of a manifest that a user edits. version: the hash of the file when it was opened."""

    text: str
    version: str


def open_manifest(path: Path) -> EditedManifest:
    """Read the manifest in a file. Raises ConfigError: it cannot be read."""
    text = read_text(path)
    return EditedManifest(text, hashlib.sha256(text.encode()).hexdigest())


def check_manifest(workspace: Workspace, path: Path, secrets: Secrets) -> CheckedFile:
    """Find the mistakes in the manifest in a file."""
    (checked,) = check_files([path], None, secrets, kind="manifest", trusted=workspace.trusted)
    return checked


def save_manifest(
    workspace: Workspace, path: Path, config: Path | None, edited: EditedManifest, secrets: Secrets
) -> CheckedFile:
    """Save a manifest if it is valid and contains no secret, masked or not; otherwise leave the file unchanged.

    config: a config whose secrets are added to `secrets`, as are credentials in the manifest. Raises ConfigError: the
    file has changed since it was opened.
    """
    before = open_manifest(path)
    if before.version != edited.version:
        raise ConfigError("has changed since it was opened here; copy your text, and open it again", path=str(path))
    if masks := _masks(path, edited.text, before.text):
        return CheckedFile(path, "manifest", masks)
    # In the same folder, to which the paths in a manifest are relative.
    draft = path.with_name(f".{path.stem}.draft{path.suffix}")
    try:
        shutil.copyfile(path, draft)
        shutil.copymode(path, draft)
        draft.write_text(edited.text, encoding="utf-8", newline="")
        for manifest in (path, draft):
            _learn_secrets(manifest, config, secrets, trusted=workspace.trusted)
        checked = check_manifest(workspace, draft, secrets)
        if checked.valid:
            checked = replace(checked, problems=[*_secrets_in(draft, secrets), *checked.problems])
        if checked.valid:
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return checked


def _masks(path: Path, text: str, before: str) -> Sequence[Problem]:
    """The lines with the mask of a secret, which saving would lose. before: the file, whose own masks are allowed."""
    problems, own = Problems(path, Secrets()), {line for line in before.splitlines() if HIDDEN in line}
    for number, line in enumerate(text.splitlines(), 1):
        if HIDDEN in line and line not in own:
            where = Location(str(path), (), number)
            problems.add(f"found {HIDDEN} in place of a secret of the file, {_INSTEAD}", where)
    return problems.all


def _learn_secrets(manifest: Path, config: Path | None, secrets: Secrets, *, trusted: bool) -> None:
    """Add the values of a config that a manifest's spec marks as secret, if both can be read."""
    with suppress(CdkError):
        load_config(config, sources.manifest_source(manifest, trusted=trusted), secrets)


def _secrets_in(draft: Path, secrets: Secrets) -> Sequence[Problem]:
    """The secrets in a valid manifest: credentials, which are added to `secrets`, and lines with known secrets."""
    problems, file = Problems(draft, secrets), YamlFile.load(draft)
    for keys, text in plain_secrets(file.value):
        secrets.add(text)
        problems.add(f"found a credential, {_INSTEAD}", file.where(keys))
    known = {problem.line for problem in problems.all}
    for number, line in enumerate(draft.read_text(encoding="utf-8").splitlines(), 1):
        if number not in known and secrets.mask(line) != line:
            problems.add(f"found a secret, {_INSTEAD}", Location(str(draft), (), number))
    return problems.all
