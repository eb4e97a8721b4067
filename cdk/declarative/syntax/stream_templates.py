"""Streams made of a template: its copy for each thing that a resolver finds, with values set in it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy

import yaml

from cdk.base.values import Json
from cdk.base.yaml_file import check_depth
from cdk.declarative.model.context import Expression, Names

Keys = Sequence[str | int]


class Setting:
    """One value to set in each copy of a template.

    path: where, as expressions. value: what. create: whether a place that is not there is made. when: whether to set
    it at all. plain: the value is a text, and not looked at as YAML.
    """

    def __init__(
        self,
        path: Sequence[Expression],
        value: Expression,
        *,
        create: bool = False,
        when: Expression | None = None,
        types: tuple[type, ...] = (),
        as_yaml: bool = False,
    ) -> None:
        self._path, self._value, self._create, self._when, self._types = path, value, create, when, types
        self._as_yaml = as_yaml

    def apply(self, copy: Json, names: Names) -> None:
        """Set the value in a copy of the template. Names: what was found, as expressions see it."""
        if self._when is not None and not self._when.true(names):
            return
        value = self._value.value(names, types=self._types)
        if self._as_yaml and isinstance(value, str):
            value = _parsed(value)
        set_at(copy, [_key(part, names) for part in self._path], value, create=self._create)


def filled(
    template: Mapping[str, Json], settings: Sequence[Setting], scopes: Iterable[Names]
) -> Iterator[dict[str, Json]]:
    """A copy of `template` for each of `found`, with the settings made in order."""
    for names in scopes:
        copy = deepcopy(dict(template))
        for setting in settings:
            setting.apply(copy, names)
        yield copy


def set_at(copy: Json, path: Keys, value: Json, *, create: bool) -> None:
    """Set `value` at every place that `path` leads to (`*` stands for any key); make the place if that is wanted."""
    *outer, last = path
    nodes = [copy]
    for i, key in enumerate(outer):
        nodes = [child for node in nodes for child in _children(node, key, make=create, follow=path[i + 1])]
    for node in nodes:
        if isinstance(node, dict):
            if last == "*":
                for name in node:
                    node[name] = value
            elif create or str(last) in node:
                node[str(last)] = value
        elif isinstance(node, list) and (index := _index(last)) is not None:
            if -len(node) <= index < len(node):
                node[index] = value
            elif create:
                node.append(value)


def _children(node: Json, key: str | int, *, make: bool, follow: str | int) -> list[Json]:
    if isinstance(node, dict):
        if key == "*":
            return list(node.values())
        if str(key) not in node and make:
            node[str(key)] = [] if _index(follow) is not None else {}
        return [node[str(key)]] if str(key) in node else []
    if isinstance(node, list):
        if key == "*":
            return list(node)
        index = _index(key)
        if index is not None and -len(node) <= index < len(node):
            return [node[index]]
    return []


def _key(part: Expression, names: Names) -> str | int:
    """A key or an index of a path: names that look like other literals (`true`, `1.5`) are texts."""
    value = part.value(names)
    return value if type(value) is int else part.text(names)


def _index(key: str | int) -> int | None:
    if isinstance(key, int):
        return key
    return int(key) if key.isdecimal() else None


def _parsed(text: str) -> Json:
    """A rendered text as the YAML value it spells; itself where it spells none."""
    try:
        check_depth(text, anchors=False)
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
