"""What a folder has to show: its pipelines and its manifests."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cdk.base.errors import ConfigError
from cdk.base.yaml_file import YamlFile
from cdk.cli.authoring.file_checks import kind_of
from cdk.cli.sync.report_files import files_in


@dataclass(frozen=True)
class FolderFiles:
    """The files of a folder that are something to the kit, as paths in it."""

    pipelines: Sequence[Path]
    manifests: Sequence[Path]


def folder_files(root: Path) -> FolderFiles:
    """What lies in a folder and those in it; not in tables, and nothing whose name begins with a dot."""
    kinds: dict[str, list[Path]] = {"pipeline": [], "manifest": []}
    for path in files_in(root, ".yaml", ".yml"):
        with suppress(ConfigError, OSError):
            if (kind := _kind(path)) in kinds:
                kinds[kind].append(path.relative_to(root))
    return FolderFiles(kinds["pipeline"], kinds["manifest"])


def _kind(path: Path) -> str:
    text = path.read_text(errors="replace")
    # Most files are neither, and YAML takes its time.
    return kind_of(YamlFile.load(path).value) if "source" in text or "check" in text else ""
