"""Explains why a manifest is invalid, in its author's terms and for all places at once.

Validation decides whether a manifest is valid; this module explains why it is not. It walks the manifest along the
shapes that its components declare, so a field that takes several forms gets one message, about the form that was meant.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache

from msgspec import Struct
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from cdk.base.validation_messages import expected
from cdk.base.values import JsonValue, Keys, as_object, dotted
from cdk.base.wording import listed, nearest, shown
from cdk.declarative.model.component import Component
from cdk.declarative.model.field_shapes import (
    AnyOf,
    Anything,
    Choice,
    Either,
    ListOf,
    MapOf,
    Nothing,
    Part,
    Scalar,
    Shape,
    fields_of,
    flat,
    kind_of,
    open_to_more,
    options_of,
    with_article,
    words,
)
from cdk.declarative.syntax.json_edit import part_at
from cdk.declarative.syntax.legacy_syntax import REMOVED_TYPES, REPLACED_FIELDS

_SHOWN = 8
_OWN_KEYS = frozenset({"type", "$parameters"})


class ManifestProblem(Struct, frozen=True):
    """A problem at one place of a manifest.

    certain: it is a reason to refuse the manifest; otherwise it is a guess. inside: it covers everything inside the
    place.
    """

    keys: Keys
    text: str
    certain: bool = True
    inside: bool = True

    def __str__(self) -> str:
        return f"{dotted(self.keys)}: {self.text}" if self.keys else self.text

    def explains(self, keys: Keys) -> bool:
        """Whether a validation error at these keys needs no message of its own."""
        around = keys == self.keys[: len(keys)]
        return self.certain and (around or (self.inside and self.keys == keys[: len(self.keys)]))


def explained(value: JsonValue, model: type[BaseModel], error: ValidationError) -> list[ManifestProblem]:
    """Return the problems of a value that is not a valid `model`, in the order of the manifest, guesses last."""
    details = [(_location(detail["loc"], value), detail) for detail in error.errors(include_url=False)]
    places = {keys for keys, _ in details}
    # Validation decides: a value that a field's own validator accepts is no problem, even if it does not fit the shape.
    problems = [
        p
        for p in _explain(Part(model), value, ())
        if not p.certain or any(_is_same_place(p.keys, location) for location in places)
    ]
    for keys, detail in details:
        if not any(problem.explains(keys) for problem in problems):
            problems.append(ManifestProblem(keys, _failed_check(detail) + _inherited(detail, value, keys)))
    return sorted(problems, key=lambda problem: not problem.certain)


def _is_same_place(keys: Keys, location: Keys) -> bool:
    """Whether a validation error at `location` is about the problem at `keys`: there, inside, or the object around."""
    return location[: len(keys)] == keys or location == keys[:-1]


def _inherited(detail: ErrorDetails, value: JsonValue, keys: Keys) -> str:
    """Return a note on which of the fields that an error names came from `$parameters`."""
    value = part_at(value, keys)
    if not isinstance(value, Mapping) or not isinstance(parameters := value.get("$parameters"), Mapping):
        return ""
    named_fields = set(re.findall(r"\w+", detail["msg"]))
    names = [name for name in parameters if name in named_fields and value.get(name) == parameters[name]]
    return f"; {' and '.join(names)} came from $parameters" if names else ""


def misspelt(value: JsonValue, model: type[BaseModel]) -> Iterator[ManifestProblem]:
    """Yield the unknown fields that resemble a known one, in a value that is a valid `model`."""
    return (problem for problem in _explain(Part(model), value, ()) if not problem.certain)


def _explain(shape: Shape, value: JsonValue, keys: Keys) -> Iterator[ManifestProblem]:
    match shape:
        case Either():
            yield from _either(shape, value, keys)
        case Part(model=model):
            yield from _part(model, shape, value, keys)
        case AnyOf():
            yield from _member(shape, value, keys)
        case ListOf(item=item) if isinstance(value, list | tuple):
            for i, part in enumerate(value):
                yield from _explain(item, part, (*keys, i))
        case ListOf(item=item, alone=True) if isinstance(value, Mapping):
            yield from _explain(item, value, keys)
        case MapOf(item=item) if isinstance(value, Mapping):
            for name, part in value.items():
                yield from _explain(item, part, (*keys, name))
        case _:
            if not _has_shape(shape, value):
                yield _mismatch(shape, value, keys)


def _has_shape(shape: Shape, value: JsonValue) -> bool:
    """Whether a value without parts has a shape."""
    match shape:
        case Anything():
            return True
        case Nothing():
            return value is None
        case Scalar(type=kind):
            return _accepts(kind, value)
        case Choice(values=values):
            return any(value == known and type(value) is type(known) for known in values)
        case _:
            return False


def _either(shape: Either, value: JsonValue, keys: Keys) -> Iterator[ManifestProblem]:
    """Yield the problems with the form that was meant; if that is unclear, one problem that names all forms."""
    tries = [(option, list(_explain(option, value, keys))) for option in flat(shape)]
    best = min(tries, key=lambda one: sum(problem.certain for problem in one[1]))[1]
    if any(problem.certain for problem in best):
        meant = [option_problems for option, option_problems in tries if _may_be_meant(option, value)]
        decided = isinstance(value, Mapping | list) and len(meant) == 1
        best = meant[0] if decided else [_mismatch(shape, value, keys)]
    yield from best


def _may_be_meant(option: Shape, value: JsonValue) -> bool:
    """Whether a list or an object may be meant as this option."""
    match option:
        case ListOf(alone=alone):
            return alone or not isinstance(value, Mapping)
        case Part() | AnyOf():
            return isinstance(value, Mapping)
        case _:
            return False


def _member(shape: AnyOf, value: JsonValue, keys: Keys) -> Iterator[ManifestProblem]:
    kind = shape.kind
    if not isinstance(value, Mapping):
        yield _mismatch(shape, value, keys)
        return
    name = value.get("type")
    if name is None and kind.implied is not None:
        name = kind.implied.of(value)
    if name is None:
        yield ManifestProblem(keys, f"this {kind_of(kind)} has no `type`{_expected(kind.members())}")
    elif (member := kind.member(name)) is None:
        yield ManifestProblem((*keys, "type"), _unexpected_type(name, kind_of(kind), kind.members()))
    else:
        yield from _fields(member, value, keys)


def _part(model: type[BaseModel], shape: Part, value: JsonValue, keys: Keys) -> Iterator[ManifestProblem]:
    if not isinstance(value, Mapping):
        yield _mismatch(shape, value, keys)
        return
    name = model.type_name() if issubclass(model, Component) else None
    kind = value.get("type", name)
    if name is not None and kind != name:
        yield ManifestProblem((*keys, "type"), _unexpected_type(kind, name, {name: model}))
        if isinstance(kind, str) and kind in Component.registry:
            return  # its fields belong to another component
    yield from _fields(model, value, keys)


def _fields(model: type[BaseModel], value: Mapping[str, JsonValue], keys: Keys) -> Iterator[ManifestProblem]:
    fields, kind = fields_of(model), kind_of(model)
    misspelt_fields = _misspelt_fields(model, value, root=not keys)
    reported: set[str] = set()
    for name, field in fields.items():
        if name == "type":
            continue
        if name in value:
            yield from _explain(field.shape, value[name], (*keys, name))
        elif field.required:
            misspelling = next((written for written, near in misspelt_fields.items() if near == name), None)
            if misspelling is None:
                yield ManifestProblem(keys, f"{kind} needs the field {name!r}, {words(field.shape)}", inside=False)
            else:
                reported.add(misspelling)
                yield ManifestProblem(
                    (*keys, misspelling),
                    f"{kind} needs the field {name!r}; found {misspelling!r}, did you mean {name!r}?",
                )
    yield from _field_guesses(
        model, value, keys, {name: near for name, near in misspelt_fields.items() if name not in reported}
    )


def _field_guesses(
    model: type[BaseModel], value: Mapping[str, JsonValue], keys: Keys, misspelt_fields: Mapping[str, str]
) -> Iterator[ManifestProblem]:
    """Yield likely mistakes that are not errors: misspelt fields, and fields of old manifests."""
    kind = kind_of(model)
    for name, near in misspelt_fields.items():
        yield ManifestProblem((*keys, name), f"unknown field {name!r} of {kind}; did you mean {near!r}?", certain=False)
    # Parameters become fields of all components below, and expressions read them under any name.
    expected = {*fields_of(model), *as_object(value.get("$parameters")), *misspelt_fields}
    for name in () if open_to_more(model) else value:
        if name not in expected and (replacement := REPLACED_FIELDS.get(name)) is not None:
            text = f"the field {name!r} of {kind} is ignored; use {replacement} instead"
            yield ManifestProblem((*keys, name), text, certain=False)


def _misspelt_fields(model: type[BaseModel], value: Mapping[str, JsonValue], *, root: bool) -> dict[str, str]:
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
    return frozenset(f.alias or name for kind in models for name, f in kind.model_fields.items())


def _unexpected_type(name: JsonValue, kind: str, members: Mapping[str, type[BaseModel]]) -> str:
    """Return the message for a `type` that is not allowed where a `kind` is expected."""
    if not isinstance(name, str):
        return f"found {_described(name)}, expected the type of {with_article(kind)}, a string"
    if (reason := REMOVED_TYPES.get(name)) is not None:
        return f"the type {name!r} is no longer part of the language: {reason}"
    if name in Component.registry:
        return f"{with_article(name)} is not allowed here{_expected(members)}"
    if (near := nearest(name, members)) is not None:
        return f"unknown type {name!r}; did you mean {near!r}?"
    return f"unknown type {name!r}{_expected(members)}"


def _expected(members: Mapping[str, type[BaseModel]]) -> str:
    names = sorted(members)
    if not names:
        return ", and there is none"
    if len(names) == 1:
        return f", expected {with_article(names[0])}"
    return f", expected one of {listed(names, _SHOWN)}"


def _mismatch(shape: Shape, value: JsonValue, keys: Keys) -> ManifestProblem:
    return ManifestProblem(keys, f"found {_described(value)}, expected {words(shape)}{_advice(shape, value)}")


def _advice(shape: Shape, value: JsonValue) -> str:
    if isinstance(value, str):
        choices = [choice for option in options_of(shape, Choice) for choice in option.values]
        if (near := nearest(value, [choice for choice in choices if isinstance(choice, str)])) is not None:
            return f"; did you mean {near!r}?"
    if isinstance(value, bool | int | float) and Scalar(str) in flat(shape):
        return f"; write '{shown(value)}', in quotes"
    if any(_explains(option.item, value) for option in options_of(shape, ListOf)):
        return (
            f"; write [{value!r}]" if isinstance(value, str) else "; write it after a dash (-), as an element of a list"
        )
    if not isinstance(value, Mapping) and (family := next(iter(options_of(shape, AnyOf)), None)):
        implied = "" if family.kind.implied is None else family.kind.implied.type
        return f"; write an object with `type: {implied}`" if implied else "; write an object with a `type`"
    return ""


def _explains(item: Shape, value: JsonValue) -> bool:
    return not list(_explain(item, value, ()))


def _accepts(kind: type, value: JsonValue) -> bool:
    try:
        _adapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


@cache
def _adapter(kind: type) -> TypeAdapter[object]:
    return TypeAdapter(kind)


def _location(loc: Sequence[str | int], value: JsonValue) -> Keys:
    """Return the keys in `value` of a validation error's location, without the names of forms that were tried."""
    keys: list[str | int] = []
    for key in loc:
        with suppress(LookupError):
            value = part_at(value, (key,))
            keys.append(key)
    return tuple(keys)


def _failed_check(detail: ErrorDetails) -> str:
    """Return a validation error as a sentence."""
    match detail["type"]:
        case "value_error" | "assertion_error":
            return str(detail.get("ctx", {}).get("error") or detail["msg"])
        case "component" | "component_type":
            return detail["msg"]
        case "missing":
            return f"the field {detail['loc'][-1]!r} is missing"
        case _:
            return f"found {_described(detail.get('input'))}, expected {expected(detail)}"


def _described(value: JsonValue) -> str:
    """Return a value as errors show it; a component is shown by its type."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    return with_article(kind) if isinstance(kind, str) and kind in Component.registry else shown(value)
