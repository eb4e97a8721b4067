"""Finds the folders of a pipeline's tables, and which of them are histories. Imports neither Spark nor pandas."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import orjson
from msgspec import Struct

from cdk.base.values import from_json

HISTORY = "_history"
"""The suffix of the folder of a table's history."""


class TableFolder(Struct, frozen=True):
    """The folder of a stream's table, or of its history if that exists without the table.

    namespace: the folder around it, if any. stream: the stream whose rows it has. history: the folder of its history.
    """

    path: Path
    namespace: str | None
    stream: str
    history: Path | None


def table_folders(target: Path, pipeline: str, is_marked: Callable[[Path, str], bool]) -> list[TableFolder]:
    """Return the tables below a folder that the pipeline has written, sorted by path; histories with their tables.

    is_marked: whether a table's log says that the pipeline wrote a stream of this name to it; called if the folder of
    its states is missing, or no state in that of a history can be read.
    """
    roots = dict(_roots(target, None))
    filled = {root for root in roots if (root / "_cdk_state" / pipeline).is_dir() or is_marked(root, root.name)}
    follows = {root: root.with_name(root.name + HISTORY) for root in filled}
    histories = {root for root in filled if root.name.endswith(HISTORY) and _is_history(root, pipeline, is_marked)}
    return [
        TableFolder(
            root,
            roots[root],
            root.name.removesuffix(HISTORY) if root in histories else root.name,
            follows[root] if follows[root] in histories else None,
        )
        for root in roots
        if root in filled - (histories & set(follows.values()))
    ]


def tables_of_others(target: Path, pipeline: str) -> dict[str, list[str]]:
    """Return the tables below a folder that only other pipelines have written, by name, with those pipelines' names."""
    owners = {}
    for root, namespace in _roots(target, None):
        names = sorted(path.name for path in (root / "_cdk_state").glob("*") if path.is_dir())
        if names and pipeline not in names:
            owners[f"{namespace}.{root.name}" if namespace else root.name] = names
    return owners


def _roots(folder: Path, namespace: str | None) -> Iterator[tuple[Path, str | None]]:
    """Yield folders of tables with their namespace: directly below the target, or below a namespace."""
    for path in sorted(folder.iterdir()):
        if (path / "_delta_log").is_dir():
            yield path, namespace
        elif namespace is None and path.is_dir() and not path.name.startswith("_cdk"):
            yield from _roots(path, path.name)


def _is_history(root: Path, pipeline: str, is_marked: Callable[[Path, str], bool]) -> bool:
    """Whether the table in a folder that is called like a history is one, not that of a stream with such a name."""
    for path in sorted((root / "_cdk_state" / pipeline).glob("*.json"), reverse=True):
        with suppress(OSError, orjson.JSONDecodeError):
            match from_json(path.read_bytes()):
                case {"stream": str(stream)}:
                    return stream.endswith("/history")
                case _:
                    continue
    return is_marked(root, f"{root.name.removesuffix(HISTORY)}/history")
