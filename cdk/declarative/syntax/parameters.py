"""`$parameters`: values that a component gives to all components below it.

A parameter becomes a field of every component below where that field is missing or empty, which is how `name`,
`path` and `url_base` are written once; and `{{ parameters.x }}` reads it anywhere. Airbyte: the same, quirks included,
since manifests rely on them.
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
    """`component` with the types that are implied and the parameters that apply, in it and in all below it.

    parent, field: the type of the component around it, and the field of that where it stands. inherited: the parameters
    from there. parent_wins: they count more than those of the components below, as streams of a template want it.
    """
    result = dict(component)
    own = result.get(_PARAMETERS) or {}
    if not isinstance(own, Mapping):
        return result  # which validation refuses
    inherited = inherited or {}
    if "type" not in result and (implied := implied_type(parent, field, result)) is not None:
        result = {"type": implied, **result}
    if "type" not in result:
        return _through(result, inherited, parent_wins=parent_wins)
    result.pop(_PARAMETERS, None)
    if _is_schema(result):
        return result
    current = {**own, **inherited} if parent_wins else {**inherited, **own}
    for name, value in current.items():
        result[name] = result.get(name) or value
    _descend(result, str(result["type"]), current, parent_wins=parent_wins)
    if current:
        result[_PARAMETERS] = current
    return result


def implied_type(component: str, field: str, value: Mapping[str, JsonValue]) -> str | None:
    """The type that an object without one has in a field of a component; None where there is none."""
    kind = Component.registry.get(component)
    known = None if kind is None else fields_of(kind).get(field)
    return None if known is None else _implied(known.shape, value)


def _implied(shape: Shape, value: Mapping[str, JsonValue]) -> str | None:
    """The first that an option of a shape implies; what families say counts before what stands there plainly."""
    inner = Either(tuple(option.item if isinstance(option, ListOf) else option for option in flat(shape)))
    family_types = [family.kind.implied.of(value) for family in options_of(inner, AnyOf) if family.kind.implied]
    plain = [kind_of(part.model) for part in options_of(inner, Part) if issubclass(part.model, Component)]
    return next((name for name in (*family_types, *plain) if name is not None), None)


def _descend(result: JsonObject, kind: str, current: Mapping[str, JsonValue], *, parent_wins: bool) -> None:
    for name, value in result.items():
        if not isinstance(value, dict | list):
            continue
        # A parameter called like the field would otherwise be put into itself, without end.
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
    """A plain object: only looked through for components, which stand directly in it."""
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
