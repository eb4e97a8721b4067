"""YAML files with line numbers, so that errors can name the line.

The values are those of JSON: keys are strings, dates stay as they are written, and a duplicate key is an error.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import yaml
from msgspec import Struct

from cdk.base.errors import ConfigError
from cdk.base.first_use import lazy_pattern
from cdk.base.values import JsonValue, Location
from cdk.base.wording import reason_of

try:
    from yaml import CSafeLoader as _SafeLoader  # five times faster, where libyaml is there
except ImportError:  # depends on how PyYAML was built
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment] # the slower one, for machines without libyaml

_MERGE = "tag:yaml.org,2002:merge"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_DEEPEST = 200
"""The deepest nesting of a file. The deepest of 326 manifests has 30 levels."""

_MOST_VALUES = 2_000_000
"""The most values of a file after its anchors are expanded."""

_UNQUOTED_EXPRESSION = lazy_pattern(r"(?:^\s*|[:,\-\[]\s*)\{\{")
_NO_JSON = ("binary", "omap", "pairs", "set", "timestamp")


class YamlFile(Struct, frozen=True):
    """A parsed YAML document that knows the line of each of its values."""

    path: Path
    value: JsonValue
    _root: yaml.Node | None

    @classmethod
    def load(cls, path: Path) -> "YamlFile":
        """Read a file. Raises ConfigError: it cannot be read, or is not YAML (with line and column)."""
        return cls.parse(read_text(path), path)

    @classmethod
    def parse(cls, text: str, path: Path) -> "YamlFile":
        """Parse the text of a file. Raises ConfigError: it is not YAML (with line and column)."""
        # JSON may be indented by tabs, which YAML rejects; JSON strings contain none.
        text = text.replace("\t", " ") if path.suffix == ".json" else text
        try:
            check_depth(text)
            loader = _Loader(text)
            root = loader.get_single_node()
            value = None if root is None else loader.construct_document(root)
            if root is not None:
                _extent(root, {})
            return cls(path, value, root)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            where = Location(str(path), (), mark.line + 1, mark.column + 1) if mark else str(path)
            raise ConfigError(f"is not YAML: {error.problem}{_advice(text, mark)}", path=where) from error
        except yaml.reader.ReaderError as error:
            line = text.encode().count(b"\n", 0, error.position) + 1
            raise ConfigError(f"is not YAML: {error.reason}", path=Location(str(path), (), line)) from error

    def where(self, keys: Sequence[str | int]) -> Location:
        """The place of the value at `keys`, with its line; that of the nearest parent if it is missing."""
        node, line = self._root, 1
        for key in keys:
            if node is None:
                break
            line, node = _step(node, key, line)
        return Location(str(self.path), keys, line)


def read_text(path: Path) -> str:
    """Read the text of a file. Raises ConfigError: it cannot be read, or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {reason_of(error)}", path=str(path)) from error


def _advice(text: str, mark: yaml.Mark | None) -> str:
    """What to do about a line that YAML rejects: tabs, or an unquoted `{{` or `${NAME}`, which it takes for a map."""
    if mark is None:
        return ""
    line = next(iter(text.split("\n")[mark.line :]), "")
    variable = re.match(r"\$\{\w*", line[mark.column - 1 :]) if mark.column else None
    if variable is not None:
        return f"; put the value that has {variable[0]}}} in quotes"
    if _UNQUOTED_EXPRESSION.search(line):
        return "; put a value that begins with {{ in quotes"
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "; indent with spaces, not with tabs"
    return "; check the indentation of this line and the one above" if line[mark.column :].startswith(":") else ""


def check_depth(text: str, *, anchors: bool = True) -> None:
    """Raise MarkedYAMLError if a text is nested too deeply: composing it recurses, in C without a limit.

    anchors: whether aliases are allowed.
    """
    depth = 0
    for event in yaml.parse(text, _SafeLoader):
        match event:
            case yaml.CollectionStartEvent():
                depth += 1
                _shallow(event, depth)
            case yaml.CollectionEndEvent():
                depth -= 1
            case yaml.AliasEvent() if not anchors:
                raise _wrong(event, "found an alias, expected values")


def _shallow(node: yaml.Node | yaml.Event, depth: int) -> None:
    if depth > _DEEPEST:
        raise _wrong(node, f"it is nested deeper than {_DEEPEST} levels")


def _extent(node: yaml.Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """The numbers of values and levels of a node, counting anchored values at each use.

    Raises MarkedYAMLError: there are too many.
    """
    if id(node) not in known:
        parts = _parts(node)
        size, depth = 1, 0
        for part in parts or ():
            inner, levels = _extent(part, known)
            size, depth = size + inner, max(depth, levels)
        if parts is not None:
            depth += 1
        if size > _MOST_VALUES:
            raise _wrong(node, f"its anchors and merges make more than {_MOST_VALUES} values; use fewer of them")
        _shallow(node, depth)
        known[id(node)] = size, depth
    return known[id(node)]


def _parts(node: yaml.Node) -> Sequence[yaml.Node] | None:
    """The child nodes of a map or a list; None for other nodes."""
    match node:
        case yaml.MappingNode():
            return [part for _, part in node.value]
        case yaml.SequenceNode():
            return list(node.value)
        case _:
            return None


def _step(node: yaml.Node, key: str | int, line: int) -> tuple[int, yaml.Node | None]:
    match node:
        case yaml.MappingNode():
            for name, value in reversed(node.value):  # merged values (`<<`) come first, and the map's own values win
                if name.value == str(key):
                    return name.start_mark.line + 1, value
        case yaml.SequenceNode() if isinstance(key, int) and key < len(node.value):
            item = node.value[key]
            return item.start_mark.line + 1, item
    return line, None


class _Loader(_SafeLoader):
    """Builds JSON values only. Its errors show no values: a password may start with a special character of YAML."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._open: set[int] = set()

    def construct_object(self, node: yaml.Node, deep: bool = False) -> JsonValue:  # noqa: FBT001, FBT002, ARG002 - PyYAML's
        if id(node) in self._open:
            raise _wrong(node, "found a value that contains itself")
        self._open.add(id(node))
        try:
            value: JsonValue = super().construct_object(node, deep=True)
        except (KeyError, ValueError):
            raise _wrong(node, f"found a value that does not match its tag {node.tag}") from None
        finally:
            self._open.discard(id(node))
        return value

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Insert the maps of `<<` into a map, each key once: its own wins, then that of an earlier map of a list.

        PyYAML 6.0.4 lets later maps win, and before it nested merges grew exponentially.
        """
        merges = [value for key, value in node.value if key.tag == _MERGE]
        if not merges:
            return
        own = node.value = [(key, value) for key, value in node.value if key.tag != _MERGE]
        pairs: list[tuple[yaml.Node, yaml.Node]] = []
        for merge in merges:
            for each in reversed(merge.value if isinstance(merge, yaml.SequenceNode) else [merge]):
                if not isinstance(each, yaml.MappingNode):
                    raise _wrong(each, "found a value that is no object, expected one, or a list of them, to merge")
                self.flatten_mapping(each)
                pairs += each.value
        node.value = list({key.value: (key, value) for key, value in (*pairs, *own)}.values())


def _mapping(loader: _Loader, node: yaml.MappingNode) -> JsonValue:
    names: set[str] = set()
    for key, _ in node.value:
        problem = None
        if not isinstance(key, yaml.ScalarNode):
            problem = "found a key that is a list or an object, expected a string"
        elif key.tag != _MERGE and key.value in names:
            problem = f"found the key {key.value!r} twice; keep one"
        if problem is not None:
            raise _wrong(key, problem)
        names.add(key.value)
    loader.flatten_mapping(node)
    return {key.value: loader.construct_object(value) for key, value in node.value}


def _no_json(_: _Loader, node: yaml.Node) -> JsonValue:
    raise _wrong(node, "found a tag (!) for which there is no JSON; quote a string that begins with !")


def _wrong(node: yaml.Node | yaml.Event, problem: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)  # type: ignore[arg-type] # libyaml's marks are alike


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor(None, _no_json)
for _name in _NO_JSON:
    _Loader.add_constructor(f"tag:yaml.org,2002:{_name}", _no_json)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in _SafeLoader.yaml_implicit_resolvers.items()
}
