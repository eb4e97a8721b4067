"""`$parameters`: values that a component passes to all components below it.

A parameter fills the field of its name in every component below, where that field is missing or empty; manifests use
this to write `name`, `path` and `url_base` once. `{{ parameters.x }}` reads a parameter anywhere. Airbyte: the same,
quirks included, since manifests rely on them.
"""

from collections.abc import Mapping

from cdk.base.values import JsonObject, JsonValue
from cdk.declarative.model.component import Component
from cdk.declarative.model.field_shapes import AnyOf, Either, ListOf, Part, Shape, fields_of, flat, kind_of, options_of

_PARAMETERS = "$parameters"


def propagate(
    component: Mapping[str, JsonValue],
    *,
    parent: str = "",
    field: str = "",
    inherited: Mapping[str, JsonValue] | None = None,
    parent_wins: bool = False,
) -> JsonObject:
    """Return `component` with implied types filled in and parameters applied, in it and in all components below.

    parent, field: the type of the enclosing component, and its field that holds this one. inherited: the parameters of
    the enclosing component. parent_wins: these override the component's own, as templates of streams require it.
    """
    result = dict(component)
    own = result.get(_PARAMETERS) or {}
    if not isinstance(own, Mapping):
        return result  # validation reports it
    inherited = inherited or {}
    if "type" not in result and (implied := implied_type(parent, field, result)) is not None:
        result = {"type": implied, **result}
    result.pop(_PARAMETERS, None)
    current = {**own, **inherited} if parent_wins else {**inherited, **own}
    if "type" not in result:
        return _through(result, current, parent_wins=parent_wins)
    if _is_schema(result):
        return result
    for name, value in current.items():
        result[name] = result.get(name) or value
    _descend(result, str(result["type"]), current, parent_wins=parent_wins)
    if current:
        result[_PARAMETERS] = current
    return result


def implied_type(component: str, field: str, value: Mapping[str, JsonValue]) -> str | None:
    """Return the type implied for an object without one in a field of a component; None if no type is implied."""
    kind = Component.registry.get(component)
    known = None if kind is None else fields_of(kind).get(field)
    return None if known is None else _implied(known.shape, value)


def _implied(shape: Shape, value: Mapping[str, JsonValue]) -> str | None:
    """Return the first type implied by an option of a shape; families take precedence over plain components."""
    inner = Either(tuple(option.item if isinstance(option, ListOf) else option for option in flat(shape)))
    family_types = [family.kind.implied.of(value) for family in options_of(inner, AnyOf) if family.kind.implied]
    plain = [kind_of(part.model) for part in options_of(inner, Part) if issubclass(part.model, Component)]
    return next((name for name in (*family_types, *plain) if name is not None), None)


def _descend(result: JsonObject, kind: str, current: Mapping[str, JsonValue], *, parent_wins: bool) -> None:
    for name, value in result.items():
        if not isinstance(value, dict | list):
            continue
        # Exclude a parameter with the name of the field: it would be put into itself without end.
        applying = {key: item for key, item in current.items() if key != name} if name in current else current
        if isinstance(value, dict):
            result[name] = propagate(value, parent=kind, field=name, inherited=applying, parent_wins=parent_wins)
        elif any(isinstance(item, dict) for item in value):
            result[name] = [
                propagate(item, parent=kind, field=name, inherited=applying, parent_wins=parent_wins)
                if isinstance(item, dict)
                else item
                for item in value
            ]


def _through(result: JsonObject, inherited: Mapping[str, JsonValue], *, parent_wins: bool) -> JsonObject:
    """Return a plain object with parameters applied to the components that it holds directly."""
    if any(isinstance(value, dict) and _is_component(value) for value in result.values()):
        for name, value in result.items():
            if isinstance(value, dict) and _is_component(value):
                result[name] = propagate(value, inherited=inherited, parent_wins=parent_wins)
    return result


def _is_component(value: Mapping[str, JsonValue]) -> bool:
    return isinstance(kind := value.get("type"), str) and kind in Component.registry


def _is_schema(value: Mapping[str, JsonValue]) -> bool:
    """Whether it is a JSON Schema, whose `type` names no component."""
    return value["type"] not in Component.registry if isinstance(value["type"], str) else True
