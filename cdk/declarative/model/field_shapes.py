"""Shapes: the values that a field of a component accepts, derived from its annotation.

Error messages, the JSON Schema of the language and the reference pages all use these shapes.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from inspect import isclass
from types import NoneType, UnionType
from typing import Annotated, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo
from msgspec.structs import fields as declared

from cdk.base.values import JsonValue
from cdk.base.wording import TYPE_WORDS
from cdk.declarative.model.component import Adapted, Component, OneOrMany


class Anything(Struct, frozen=True):
    """A field that accepts any JSON value, including null."""


class Nothing(Struct, frozen=True):
    """Null: an optional field without a value."""


class Scalar(Struct, frozen=True):
    """A string, a number or a boolean. bounds: its limits, in JSON Schema keywords."""

    type: type
    bounds: tuple[tuple[str, JsonValue], ...] = ()


class Choice(Struct, frozen=True):
    """One of the values that a `Literal` lists."""

    values: tuple[JsonValue, ...]


class ListOf(Struct, frozen=True):
    """A list. alone: a single element may be written without the list. least: the minimum number of elements."""

    item: "Shape"
    alone: bool = False
    least: int = 0


class MapOf(Struct, frozen=True):
    """An object with arbitrary keys."""

    item: "Shape"


class Part(Struct, frozen=True):
    """An object with known fields: a component, or a plain model."""

    model: type[Struct]


class AnyOf(Struct, frozen=True):
    """Any component of a family."""

    kind: type[Component]


class Either(Struct, frozen=True):
    """One of several shapes, from a union of types."""

    options: tuple["Shape", ...]


S = TypeVar("S", bound="Shape")

FURTHER = "further_fields"
"""The name of the field in which a model keeps fields that it does not declare."""


class Changed(Struct, frozen=True):
    """A shape whose value a function changes, see `Adapted`."""

    item: "Shape"
    by: Adapted


Shape: TypeAlias = Anything | Nothing | Scalar | Choice | ListOf | MapOf | Part | AnyOf | Either | Changed


class FieldShape(Struct, frozen=True):
    """A field as written in manifests.

    key: its name there. name: its name in the class. default: None if it is required or defaults to null.
    """

    key: str
    name: str
    shape: Shape
    required: bool
    default: JsonValue


@cache
def fields_of(model: type[Struct]) -> Mapping[str, FieldShape]:
    """Return the fields of a model by their names in a manifest, in order of declaration."""
    return {info.encode_name: _field(info) for info in declared(model) if info.name != FURTHER}


def kind_of(model: type[Struct]) -> str:
    """Return the name of a model: the `type` of a component, the kind of a family, otherwise the class name."""
    return (model.type_name or model.__name__.removeprefix("Any")) if issubclass(model, Component) else model.__name__


def open_to_more(model: type[Struct]) -> bool:
    """Whether the model keeps undeclared fields, as components that pass them to custom code do."""
    return FURTHER in model.__struct_fields__


def words(shape: Shape) -> str:  # noqa: C901, PLR0911 - one line for each shape there is
    """Return the description of a shape in errors: `a string, or a list of strings`."""
    match shape:
        case Anything():
            return "anything"
        case Nothing():
            return "null"
        case Scalar(type=kind):
            return TYPE_WORDS[kind]
        case Choice(values=(value,)):
            return repr(value)
        case Choice(values=values):
            return f"one of {', '.join(map(repr, values))}"
        case ListOf(item=item, alone=alone):
            return f"{words(item)}, or a list of them" if alone else f"a list{_of(item)}"
        case MapOf(item=item):
            return f"an object{_of(item)}"
        case Part(model=model):
            return with_article(kind_of(model))
        case AnyOf(kind=kind):
            return with_article(kind_of(kind))
        case Changed(item=item):
            return words(item)
        case Either(options=options):
            phrases = [words(option) for option in options if option != Nothing()]
            return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} or {phrases[-1]}"


def flat(shape: Shape) -> Iterator[Shape]:
    """Yield the alternatives of a shape, with nested `Either` expanded."""
    match shape:
        case Either(options=options):
            for option in options:
                yield from flat(option)
        case Changed(item=item):
            yield from flat(item)
        case _:
            yield shape


def options_of(shape: Shape, kind: type[S]) -> list[S]:
    """Return the alternatives of a shape that are of one kind."""
    return [option for option in flat(shape) if isinstance(option, kind)]


def leaves(shape: Shape) -> Iterator[Shape]:
    """Yield the innermost shapes: each alternative, and for lists and maps that of their elements."""
    match shape:
        case ListOf(item=item) | MapOf(item=item) | Changed(item=item):
            yield from leaves(item)
        case Either(options=options):
            for option in options:
                yield from leaves(option)
        case _:
            yield shape


def parts_of(model: type[Struct]) -> list[type[Struct]]:
    """Return the models that a model's fields name directly, not through a family."""
    return [leaf.model for field in fields_of(model).values() for leaf in leaves(field.shape) if isinstance(leaf, Part)]


def _field(info: FieldInfo) -> FieldShape:
    default = None if info.default is NODEFAULT else info.default
    if info.default_factory is not NODEFAULT:
        default = info.default_factory()
    return FieldShape(info.encode_name, info.name, shape_of(info.type), info.required, default)


def shape_of(annotation: object, marks: Sequence[object] = ()) -> Shape:
    """Return the shape that an annotation describes. marks: the metadata of the annotation."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return shape_of(inner, [*more, *marks])
    shape = _bare(annotation)
    for mark in marks:
        shape = _marked(shape, mark)
    return shape


def _bare(annotation: object) -> Shape:  # noqa: PLR0911
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is None or annotation is NoneType:
        return Nothing()
    if origin in {Union, UnionType}:
        return Either(tuple(shape_of(option) for option in inner))
    if origin is Literal:
        return Choice(inner)
    bare = origin or annotation
    if isclass(bare) and not issubclass(bare, str):
        if issubclass(bare, Struct):
            return AnyOf(bare) if issubclass(bare, Component) and bare.type_name is None else Part(bare)
        if issubclass(bare, Mapping):
            return MapOf(shape_of(inner[1]) if inner else Anything())
        if issubclass(bare, Sequence):
            return ListOf(shape_of(inner[0]) if inner else Anything())
    return Scalar(bare) if bare in TYPE_WORDS else Anything()


_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "min_length": "minLength",
    "pattern": "pattern",
}


def _marked(shape: Shape, mark: object) -> Shape:  # noqa: PLR0911 - one return for each mark
    match shape, mark:
        case _, Adapted():
            return Changed(shape, mark)
        case Either(options=options), _:
            return Either(tuple(_marked(option, mark) for option in options))
        case Changed(item=item, by=by), _:
            return Changed(_marked(item, mark), by)
        case ListOf(item=item, least=least), OneOrMany():
            return ListOf(item, alone=True, least=least)
        case ListOf(item=item, alone=alone), Meta(min_length=int() as least):
            return ListOf(item, alone, least)
        case Scalar(type=kind, bounds=bounds), Meta():
            more = (
                (word, getattr(mark, name)) for name, word in _BOUNDS.items() if getattr(mark, name, None) is not None
            )
            return Scalar(kind, (*bounds, *more))
        case _:
            return shape


def _of(item: Shape) -> str:  # noqa: PLR0911 - one line for each shape there is
    match item:
        case Changed(item=inner):
            return _of(inner)
        case Anything():
            return ""
        case Scalar(type=kind) if kind is not bool:
            return f" of {TYPE_WORDS[kind].partition(' ')[2]}s"
        case Either(options=options) if len(options_of(item, Scalar)) == len(options):
            return f" of {' or '.join(_of(option).removeprefix(' of ') for option in options)}"
        case ListOf():
            return f" of {words(item).removeprefix('a ').replace('list', 'lists', 1)}"
        case Part(model=model):
            return f" of {_plural(kind_of(model))}"
        case AnyOf(kind=kind):
            return f" of {_plural(kind_of(kind))}"
        case _:
            return f", each {words(item)}"


def with_article(name: str) -> str:
    """Return the name of a kind of component with `a` or `an` before it."""
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def _plural(name: str) -> str:
    return f"{name[:-1]}ies" if name.endswith("y") else name if name.endswith("s") else f"{name}s"
