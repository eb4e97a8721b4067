"""Finds the pipelines and manifests in a folder."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from cdk.base.errors import ConfigError
from cdk.base.yaml_file import YamlFile
from cdk.cli.authoring.file_checks import kind_of

_LARGEST, _DEEPEST = 2**20, 4
"""The size of the largest file that is read, in bytes, and the levels of folders that are searched."""
_TABLE = {"_delta_log", "_cdk_state"}


class FolderFiles(Struct, frozen=True):
    """The pipelines and manifests of a folder, as paths relative to it."""

    pipelines: Sequence[Path]
    manifests: Sequence[Path]


def folder_files(root: Path) -> FolderFiles:
    """Search a folder and its subfolders, without tables and names that begin with a dot."""
    kinds: dict[str, list[Path]] = {"pipeline": [], "manifest": []}
    for path in _yaml_files(root):
        with suppress(ConfigError, OSError):
            if (kind := _kind(path)) in kinds:
                kinds[kind].append(path.relative_to(root))
    return FolderFiles(kinds["pipeline"], kinds["manifest"])


def _yaml_files(root: Path) -> Iterator[Path]:
    for home, folders, names in os.walk(root):
        if _TABLE & set(folders) or len(Path(home).relative_to(root).parts) >= _DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        for path in (Path(home) / name for name in sorted(names)):
            # Links may be broken and files may disappear, which raises OSError; reading a named pipe would never end.
            with suppress(OSError):
                chosen = path.suffix in {".yaml", ".yml"} and not path.name.startswith(".")
                if chosen and path.is_file() and path.stat().st_size <= _LARGEST:
                    yield path


def _kind(path: Path) -> str:
    text = path.read_text(errors="replace")
    # Most files are neither, and parsing YAML is slow.
    if "source" not in text and "check" not in text:
        return ""
    try:
        return kind_of(YamlFile.load(path).value)
    except ConfigError:
        # List an invalid pipeline too: its author looks for it, and for the error in it.
        return "pipeline" if {*_KEY.findall(text)} >= _KEYS else ""


_KEYS = {"source", "target"}
_KEY = re.compile(r"^(\w+):", re.MULTILINE)
