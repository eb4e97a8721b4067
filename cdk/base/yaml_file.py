"""YAML files with line numbers, so that an error can say where."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from cdk.base.errors import ConfigError
from cdk.base.values import Json

try:
    from yaml import CSafeLoader as Loader  # five times faster, where libyaml is there
except ImportError:  # pragma: no cover - depends on how PyYAML was built
    from yaml import SafeLoader as Loader  # type: ignore[assignment]


@dataclass(frozen=True)
class YamlFile:
    """A parsed YAML document that knows on which line each of its values stands."""

    path: Path
    value: Json
    _root: yaml.Node | None

    @classmethod
    def load(cls, path: Path) -> "YamlFile":
        """Read a file. Raises ConfigError: it cannot be read, or is no YAML (with line and column)."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot be read: {error}", path=str(path)) from error
        try:
            root = yaml.compose(text, Loader)
            return cls(path, yaml.load(text, Loader), root)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
            raise ConfigError(f"is not YAML: {error.problem}", path=where) from error

    def where(self, keys: Sequence[str | int]) -> str:
        """`file:line a.b[2]` of the value at `keys`, or of the nearest one around it that exists."""
        node, line = self._root, 1
        for key in keys:
            if node is None:
                break
            line, node = _step(node, key, line)
        return f"{self.path}:{line} {dotted(keys)}".rstrip()


def dotted(keys: Sequence[str | int]) -> str:
    """A path inside a document as people write it: `streams[2].name`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


def _step(node: yaml.Node, key: str | int, line: int) -> tuple[int, yaml.Node | None]:
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == str(key):
                return name.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        item = node.value[key]
        return item.start_mark.line + 1, item
    return line, None
