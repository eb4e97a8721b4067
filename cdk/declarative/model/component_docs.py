"""The documentation of components, as their classes state it: in a docstring, and in one below each field."""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Annotated, get_args, get_origin

from msgspec import Meta, Struct
from msgspec.structs import fields as declared


class ComponentDocs(Struct, frozen=True):
    """The documentation of a component.

    text: in paragraphs. example: YAML; empty if there is none. fields: a description of each, by its name in manifests.
    """

    text: str
    example: str
    fields: Mapping[str, str]


def component_docs(model: type[Struct]) -> ComponentDocs:
    """Return the documentation of a model; a custom component without an example gets a minimal one.

    A field without a description of its own has that of its annotation, if any.
    """
    text, _, example = inspect.cleandoc(vars(model).get("__doc__") or "").partition("\nExample:\n")
    if not example and "class_name" in model.__struct_fields__:
        example = f"type: {model.__name__}\nclass_name: components.{model.__name__.replace('Custom', 'My')}"
    own = {name: line for base in reversed(model.__mro__) for name, line in _own_fields(base).items()}
    fields = {info.encode_name: own.get(info.name) or _of_annotation(info.type) for info in declared(model)}
    return ComponentDocs(text.strip(), dedent(example).strip(), fields)


def _of_annotation(annotation: object) -> str:
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((mark.description for mark in marks if isinstance(mark, Meta) and mark.description), "")


def _own_fields(kind: type) -> Mapping[str, str]:
    """Return the docstrings below the fields that a class declares itself."""
    return _module_fields(kind.__module__).get(kind.__qualname__, {}) if issubclass(kind, Struct) else {}


@cache
def _module_fields(name: str) -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings below the fields of each class of a module."""
    module = ast.parse(inspect.getsource(sys.modules[name]))
    return {node.name: dict(_described(node)) for node in module.body if isinstance(node, ast.ClassDef)}


def _described(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement, below in pairwise(node.body):
        match statement, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                yield name, " ".join(text.split())
            case _:
                pass
