"""Guesses about fields that a component does not know: misspelt, in the wrong component, or of an old manifest."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain

from msgspec import Struct

from cdk.base.values import JsonValue, as_object
from cdk.base.wording import listed, nearest
from cdk.declarative.model.component import Component
from cdk.declarative.model.field_shapes import AnyOf, Part, fields_of, kind_of, leaves, open_to_more
from cdk.declarative.syntax.legacy_syntax import REPLACED_FIELDS

_SHOWN = 8
_OWN_KEYS = frozenset({"type", "$parameters"})


def field_guesses(
    model: type[Struct], value: Mapping[str, JsonValue], misspelt: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the fields that are probably mistakes, but not errors, each with the problem.

    These are misspelt and misplaced fields, and fields of old manifests.
    """
    kind = kind_of(model)
    for name, near in misspelt.items():
        yield name, f"unknown field {name!r} of {kind}; did you mean {near!r}?"
    # Parameters become fields of all components below, and expressions read them under any name.
    expected = {*_OWN_KEYS, *fields_of(model), *as_object(value.get("$parameters")), *misspelt}
    for name in () if open_to_more(model) else value:
        if name in expected:
            continue
        if (replacement := REPLACED_FIELDS.get(name)) is not None:
            yield name, f"the field {name!r} of {kind} is ignored; use {replacement} instead"
        # In this order: to find the owners, all components are imported.
        elif _is_component(value[name]) and (owners := _owners().get(name)) is not None:
            yield (
                name,
                f"the field {name!r} of {kind} is ignored; it is a field of {listed(owners, _SHOWN)}: move it there",
            )


def _is_component(value: JsonValue) -> bool:
    """Whether a value is a component with its type, or a list of such."""
    if isinstance(value, list):
        return bool(value) and all(map(_is_component, value))
    return isinstance(value, Mapping) and isinstance(kind := value.get("type"), str) and kind in Component.registry


@cache
def _owners() -> Mapping[str, Sequence[str]]:
    """Return the fields that have components, each with the names of the types that have it."""
    owners: dict[str, list[str]] = {}
    for name, model in sorted(Component.registry.items()):
        for key, field in () if open_to_more(model) else fields_of(model).items():
            if any(isinstance(leaf, Part | AnyOf) for leaf in leaves(field.shape)):
                owners.setdefault(key, []).append(name)
    return owners


def misspelt_fields(model: type[Struct], value: Mapping[str, JsonValue], *, root: bool) -> dict[str, str]:
    """Return the fields unknown to a model, each with the known field that it resembles.

    Parameters become fields, so they do not count. A field that another component knows is often a leftover: below the
    root it counts only if it resembles a required field.
    """
    fields, parameters = fields_of(model), as_object(value.get("$parameters"))
    odd = [str(name) for name in value if name not in fields and name not in parameters and name not in _OWN_KEYS]
    if not odd or open_to_more(model):
        return {}
    free = [name for name in fields if name not in _OWN_KEYS and name not in value]
    similar = {name: near for name in odd if (near := _near(name, free)) is not None}
    if root or not similar:
        return similar
    needed = [name for name in free if fields[name].required]
    known = _known_everywhere()
    return {
        name: near
        for name, anything in similar.items()
        if (near := _near(name, needed) if name in known else anything) is not None
    }


def _near(name: str, free: Sequence[str]) -> str | None:
    """Return the known field that an unknown one means: its replacement if it is an old one, else the nearest."""
    if (replacement := REPLACED_FIELDS.get(name)) is not None:
        return replacement if replacement in free else None
    return nearest(name, free)


@cache
def _known_everywhere() -> frozenset[str]:
    models = [kind for kind in Component.registry.values() if not open_to_more(kind)]
    return frozenset(chain.from_iterable(map(fields_of, models)))
