"""Fills in templates of streams: one copy for each item that a resolver finds, with values set in it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from datetime import date

import yaml
from msgspec import Struct

from cdk.base.logs import logger
from cdk.base.values import JsonObject, JsonValue
from cdk.base.yaml_file import check_depth
from cdk.declarative.model.context import Expression, Names
from cdk.declarative.syntax.json_edit import replace_at, set_at
from cdk.rest.http.json_path import absence
from cdk.rest.http.json_path import path as json_path


class Setting(Struct, frozen=True, kw_only=True):
    """One value to set in each copy of a template.

    name: of the setting in warnings. path: where, as expressions. value: an expression. create: whether to create a
    place that is missing. when: a condition for setting the value. types: literals of other types stay
    strings. as_yaml: whether a rendered string is parsed as YAML.
    """

    name: str
    path: Sequence[Expression]
    value: Expression
    create: bool
    when: Expression | None
    types: tuple[type, ...]
    as_yaml: bool

    def apply(self, copy: JsonValue, names: Names) -> str:
        """Set the value in a copy of the template, if the copy can hold it at that place. Return why it has none.

        The reason is a missing place, or a missing field of an item; empty if there is neither, or if `when` is false.
        """
        if self.when is not None and not self.when.true(names):
            return ""
        value = self.value.value(names, types=self.types)
        if self.as_yaml and isinstance(value, str):
            value = _parsed(value)
        path = [part.text(names) for part in self.path]
        scalar = (int, float, date) if path == ["name"] or not isinstance(value, bool) else ()
        if isinstance(value, scalar) and isinstance(json_path(*path)(copy), str):
            # What replaces a string of the template is one, spelled as in the source: the id 1e5 in the path of a URL.
            value = self.value.text(names)
        with suppress(ValueError):
            if not replace_at(copy, path, value):
                if not self.create:
                    return absence(copy, path, "the template") or f"nothing at {' > '.join(path)} of the template"
                set_at(copy, path, value)
        return self._missing_fields(names) if value in (None, "") else ""

    def _missing_fields(self, names: Names) -> str:
        """Return which fields are missing if the value reads only such of items; else an empty string."""
        read = [] if self.value.template is None else self.value.template.paths
        items = [(value, path, f"`{name}`") for name, *path in read if isinstance(value := names.get(name), dict)]
        reasons = [absence(*item) for item in items]
        return reasons[0] if reasons and all(reasons) else ""


def filled(
    template: Mapping[str, JsonValue], settings: Sequence[Setting], scopes: Iterable[Names]
) -> Iterator[JsonObject]:
    """Yield a copy of `template` for each scope of names, with the settings applied in order.

    Warns, after the last copy, of settings that none of the copies has a value of.
    """
    reasons: dict[int, str] = {}
    for names in scopes:
        copy = deepcopy(dict(template))
        for number, setting in enumerate(settings):
            reason = setting.apply(copy, names)
            reasons[number] = reason and reasons.get(number, reason)
        yield copy
    for number, reason in reasons.items():
        if reason:
            logger.warning("%s: there is %s, so no stream has this value", settings[number].name, reason)


def _parsed(text: str) -> JsonValue:
    """Return a rendered text parsed as YAML; the text itself if it is not valid YAML."""
    try:
        check_depth(text, anchors=False)
        value: JsonValue = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value
