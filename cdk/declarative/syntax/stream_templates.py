"""Streams made of a template: its copy for each thing that a resolver finds, with values set in it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy

import yaml

from cdk.base.values import JsonObject, JsonValue
from cdk.base.yaml_file import check_depth
from cdk.declarative.model.context import Expression, Names
from cdk.declarative.syntax.json_edit import replace_at, set_at
from cdk.rest.http.json_path import path as json_path


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

    def apply(self, copy: JsonValue, names: Names) -> None:
        """Set the value in a copy of the template; a place that the copy cannot have stays missing."""
        if self._when is not None and not self._when.true(names):
            return
        value = self._value.value(names, types=self._types)
        if self._as_yaml and isinstance(value, str):
            value = _parsed(value)
        path = [part.text(names) for part in self._path]
        if type(value) in {int, float} and path != ["name"] and isinstance(json_path(*path)(copy), str):
            # What a text stands for in the template is one in the copy, such as an id in the path of a request.
            value = str(value)
        with suppress(ValueError):
            if not replace_at(copy, path, value) and self._create:
                set_at(copy, path, value)


def filled(
    template: Mapping[str, JsonValue], settings: Sequence[Setting], scopes: Iterable[Names]
) -> Iterator[JsonObject]:
    """A copy of `template` for each scope of names, with the settings made in order."""
    for names in scopes:
        copy = deepcopy(dict(template))
        for setting in settings:
            setting.apply(copy, names)
        yield copy


def _parsed(text: str) -> JsonValue:
    """A rendered text as the YAML value it spells; itself where it spells none."""
    try:
        check_depth(text, anchors=False)
        value: JsonValue = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value
