"""What a folder has to show: its pipelines and its manifests."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cdk.base.errors import ConfigError
from cdk.base.yaml_file import YamlFile
from cdk.cli.authoring.file_checks import kind_of

_LARGEST, _DEEPEST = 2**20, 4
"""Bytes of a file that is looked into, and levels of folders."""
_TABLE = {"_delta_log", "_cdk_state"}


@dataclass(frozen=True)
class FolderFiles:
    """The files of a folder that are something to the kit, as paths in it."""

    pipelines: Sequence[Path]
    manifests: Sequence[Path]


def folder_files(root: Path) -> FolderFiles:
    """What lies in a folder and those in it; not in tables, and nothing whose name begins with a dot."""
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
            # A link may lead nowhere, the read of a pipe never ends, and a file may be gone meanwhile.
            with suppress(OSError):
                chosen = path.suffix in {".yaml", ".yml"} and not path.name.startswith(".")
                if chosen and path.is_file() and path.stat().st_size <= _LARGEST:
                    yield path


def _kind(path: Path) -> str:
    text = path.read_text(errors="replace")
    # Most files are neither, and YAML takes its time.
    if "source" not in text and "check" not in text:
        return ""
    try:
        return kind_of(YamlFile.load(path).value)
    except ConfigError:
        # Its author looks for it, and for what is wrong with it.
        return "pipeline" if {*_KEY.findall(text)} >= _KEYS else ""


_KEYS = {"source", "target"}
_KEY = re.compile(r"^(\w+):", re.MULTILINE)
