"""Turns the objects of a manifest into components, or names all its problems at once, in its author's terms.

Walks the manifest along the shapes that its components declare, so a field that takes several forms gets one message,
about the form that was meant.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from operator import ge, gt
from typing import TypeVar, cast

from msgspec import Struct, ValidationError, convert

from cdk.base.errors import ManifestError
from cdk.base.values import Json, JsonValue, Keys, as_object, dotted
from cdk.base.wording import listed, nearest, shown
from cdk.declarative.model.component import Component
from cdk.declarative.model.field_shapes import (
    FURTHER,
    AnyOf,
    Anything,
    Changed,
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
    shape_of,
    with_article,
    words,
)
from cdk.declarative.syntax.field_guesses import field_guesses, misspelt_fields
from cdk.declarative.syntax.legacy_syntax import REMOVED_TYPES

_SHOWN = 8

M = TypeVar("M", bound=Struct)


class ManifestProblem(Struct, frozen=True):
    """A problem at one place of a manifest. certain: it is a reason to refuse the manifest; otherwise it is a guess."""

    keys: Keys
    text: str
    certain: bool = True

    def __str__(self) -> str:
        return f"{dotted(self.keys)}: {self.text}" if self.keys else self.text


class _Invalid:
    """Stands for a value that has problems."""


_INVALID = _Invalid()
_Problems = list[ManifestProblem]


def validated(model: type[M], value: Json) -> M:
    """Return a value as a component of a class, or of a family. Raises ManifestError that names every problem."""
    component, problems = validate(model, value)
    if component is None:
        raise ManifestError("\n".join(str(problem) for problem in problems if problem.certain))
    return component


def validate(model: type[M], value: Json) -> tuple[M | None, Sequence[ManifestProblem]]:
    """Return a value as a component, None if it is invalid; and its problems in their order, guesses last.

    The guesses about a valid component are fields that are probably misspelt.
    """
    problems: _Problems = []
    built = _built(shape_of(model), value, (), problems)
    return (None if built is _INVALID else cast("M", built), sorted(problems, key=lambda problem: not problem.certain))


def _built(shape: Shape, value: JsonValue, keys: Keys, problems: _Problems) -> object:  # noqa: C901, PLR0911, PLR0912 - a case a shape
    """Return what a value of a shape becomes; _INVALID if it has problems that are certain, which are added."""
    match shape:
        case Part(model=kind) | AnyOf(kind=kind) if isinstance(value, kind):
            return value
        case Part() if isinstance(value, Mapping):
            return _part(shape, value, keys, problems)
        case AnyOf() if isinstance(value, Mapping):
            return _member(shape, value, keys, problems)
        case Either():
            return _either(shape, value, keys, problems)
        case Changed():
            return _changed(shape, value, keys, problems)
        case ListOf(item=item, alone=True) if isinstance(value, Mapping):
            built = _built(item, value, keys, problems)
            return built if built is _INVALID else [built]
        case ListOf(item=item, least=least) if isinstance(value, list | tuple):
            elements = [_built(item, part, (*keys, i), problems) for i, part in enumerate(value)]
            if len(value) >= least:
                return _INVALID if _INVALID in elements else elements
            problems.append(ManifestProblem(keys, f"found {shown(value)}, expected {least} or more elements"))
            return _INVALID
        case MapOf(item=item) if isinstance(value, Mapping):
            entries = {name: _built(item, part, (*keys, name), problems) for name, part in value.items()}
            return _INVALID if _INVALID in entries.values() else entries
        case Anything():
            return value
        case Scalar():
            return _scalar(shape, value, keys, problems)
        case Nothing() | Choice() if _is_exactly(shape, value):
            return value
        case _:
            problems.append(_mismatch(shape, value, keys))
            return _INVALID


def _is_exactly(shape: Shape, value: JsonValue) -> bool:
    """Whether a value without parts has a shape as it is, without a conversion."""
    match shape:
        case Nothing():
            return value is None
        case Scalar(type=kind):
            return type(value) is kind
        case Choice(values=values):
            return any(value == known and type(value) is type(known) for known in values)
        case _:
            return False


_LIMITS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "minimum": (ge, "{} or more"),
    "exclusiveMinimum": (gt, "more than {}"),
    "minLength": (ge, "a string of {} or more characters"),
}
"""The check of each limit, and how errors name it."""


def _scalar(shape: Scalar, value: JsonValue, keys: Keys, problems: _Problems) -> object:
    """Return a string, number or boolean; existing manifests also write numbers and booleans as strings."""
    try:
        plain = int(value) if isinstance(value, bool) and shape.type is not bool else value
        built: str | float = convert(plain, shape.type, strict=False)
    except ValidationError:
        problems.append(_mismatch(shape, value, keys))
        return _INVALID
    for name, limit in shape.bounds:
        holds, expected = _LIMITS[name]
        if not holds(len(built) if isinstance(built, str) else built, cast("float", limit)):
            problems.append(ManifestProblem(keys, f"found {shown(value)}, expected {expected.format(limit)}"))
            return _INVALID
    return built


def _changed(shape: Changed, value: JsonValue, keys: Keys, problems: _Problems) -> object:
    before, after = shape.by.before, shape.by.after
    try:
        plain = value if before is None else before(value)
        built = _built(shape.item, cast("JsonValue", plain), keys, problems)
        return built if built is _INVALID or after is None else after(built)
    except (ValueError, ManifestError) as error:
        problems.append(ManifestProblem(keys, str(error)))
        return _INVALID


def _either(shape: Either, value: JsonValue, keys: Keys, problems: _Problems) -> object:
    """Return the value in the first form that fits, an exact one before others.

    If none does, add the problems with the form that was meant; if that is unclear, one problem that names all forms.
    """
    options = list(_options(shape))
    tries: list[tuple[Shape, _Problems]] = []
    for option in sorted(options, key=lambda option: not _is_exactly(option, value)):
        reasons: _Problems = []
        built = _built(option, value, keys, reasons)
        if built is not _INVALID:
            problems += reasons
            return built
        if option != Nothing():
            tries.append((option, reasons))
    meant = [reasons for option, reasons in tries if len(tries) == 1 or _may_be_meant(option, value)]
    problems += meant[0] if len(meant) == 1 else [_mismatch(shape, value, keys)]
    return _INVALID


def _options(shape: Shape) -> Sequence[Shape]:
    """Return the alternatives of a shape as they are declared."""
    return [inner for option in shape.options for inner in _options(option)] if isinstance(shape, Either) else [shape]


def _may_be_meant(option: Shape, value: JsonValue) -> bool:
    """Whether a value is a list or an object that may be meant as this option."""
    match option:
        case ListOf(alone=alone):
            return isinstance(value, list) or (alone and isinstance(value, Mapping))
        case Part() | AnyOf():
            return isinstance(value, Mapping)
        case _:
            return False


def _member(shape: AnyOf, value: Mapping[str, JsonValue], keys: Keys, problems: _Problems) -> object:
    kind = shape.kind
    name = value.get("type")
    if "type" not in value and kind.implied is not None:
        name = kind.implied.of(value)
    if name is None:
        problems.append(ManifestProblem(keys, f"this {kind_of(kind)} has no `type`{_expected(kind.members())}"))
    elif (member := kind.member(name)) is None:
        problems.append(ManifestProblem((*keys, "type"), _unexpected_type(name, kind_of(kind), kind.members())))
    else:
        return _fields(member, value, keys, problems)
    return _INVALID


def _part(shape: Part, value: Mapping[str, JsonValue], keys: Keys, problems: _Problems) -> object:
    model = shape.model
    name = model.type_name if issubclass(model, Component) else None
    kind = value.get("type")
    if name is None or kind is None or kind == name:
        return _fields(model, value, keys, problems)
    problems.append(ManifestProblem((*keys, "type"), _unexpected_type(kind, name, {name: model})))
    if not (isinstance(kind, str) and kind in Component.registry):  # else its fields belong to another component
        _fields(model, value, keys, problems)
    return _INVALID


def _fields(model: type[Struct], value: Mapping[str, JsonValue], keys: Keys, problems: _Problems) -> object:
    """Return the object of a class with the fields of `value`. Null leaves a field that need not be there out."""
    fields, kind = fields_of(model), kind_of(model)
    misspelt = misspelt_fields(model, value, root=not keys)
    arguments: dict[str, object] = {}
    for key, field in fields.items():
        if key in value and (value[key] is not None or field.required):
            arguments[field.name] = _built(field.shape, value[key], (*keys, key), problems)
        elif field.required:
            arguments[field.name] = _INVALID
            written = next((written for written, near in misspelt.items() if near == key), None)
            if written is None:
                problems.append(ManifestProblem(keys, f"{kind} needs the field {key!r}, {words(field.shape)}"))
            else:
                del misspelt[written]
                text = f"{kind} needs the field {key!r}; found {written!r}, did you mean {key!r}?"
                problems.append(ManifestProblem((*keys, written), text))
    guesses = field_guesses(model, value, misspelt)
    problems += (ManifestProblem((*keys, field), text, certain=False) for field, text in guesses)
    if _INVALID in arguments.values():
        return _INVALID
    if open_to_more(model):
        arguments[FURTHER] = {key: part for key, part in value.items() if key not in fields and key != "type"}
    try:
        return model(**arguments)
    except ValueError as error:
        problems.append(ManifestProblem(keys, f"{error}{_inherited(str(error), value)}"))
        return _INVALID


def _inherited(text: str, value: Mapping[str, JsonValue]) -> str:
    """Return a note on which of the fields that an error names came from `$parameters`."""
    parameters = as_object(value.get("$parameters"))
    named_fields = set(re.findall(r"\w+", text))
    names = [name for name in parameters if name in named_fields and value.get(name) == parameters[name]]
    return f"; {' and '.join(names)} came from $parameters" if names else ""


def _unexpected_type(name: JsonValue, kind: str, members: Mapping[str, type[Struct]]) -> str:
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


def _expected(members: Mapping[str, type[Struct]]) -> str:
    names = sorted(members)
    if not names:
        return ", and there is none"
    return f", expected {with_article(names[0])}" if len(names) == 1 else f", expected one of {listed(names, _SHOWN)}"


def _mismatch(shape: Shape, value: JsonValue, keys: Keys) -> ManifestProblem:
    return ManifestProblem(keys, f"found {_described(value)}, expected {words(shape)}{_advice(shape, value)}")


def _advice(shape: Shape, value: JsonValue) -> str:
    if isinstance(value, str):
        choices = [choice for option in options_of(shape, Choice) for choice in option.values]
        if (near := nearest(value, [choice for choice in choices if isinstance(choice, str)])) is not None:
            return f"; did you mean {near!r}?"
    if isinstance(value, bool | int | float) and Scalar(str) in flat(shape):
        return f"; write '{shown(value)}', in quotes"
    if any(_fits(option.item, value) for option in options_of(shape, ListOf)):
        if isinstance(value, str | int | float):
            return f"; write [{value!r}]" if isinstance(value, str) else f"; write [{shown(value)}]"
        return "; write it after a dash (-), as an element of a list"
    if not isinstance(value, Mapping) and (family := next(iter(options_of(shape, AnyOf)), None)):
        implied = "" if family.kind.implied is None else family.kind.implied.type
        reference = (
            f", or '#/definitions/{value}' if that is meant" if isinstance(value, str) and value.isidentifier() else ""
        )
        return f"; write an object with {f'`type: {implied}`' if implied else 'a `type`'}{reference}"
    return ""


def _fits(item: Shape, value: JsonValue) -> bool:
    return _built(item, value, (), []) is not _INVALID


def _described(value: JsonValue) -> str:
    """Return a value as errors show it; a component is shown by its type."""
    kind = value.get("type") if isinstance(value, Mapping) else None
    return with_article(kind) if isinstance(kind, str) and kind in Component.registry else shown(value)
