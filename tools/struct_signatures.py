"""Griffe's extension for the site: classes of `msgspec.Struct` show how they are constructed, as dataclasses do."""

from collections.abc import Iterator
from typing import Any

from griffe import Class, Decorator, Expr, ExprName, Extension, Module


class StructSignatures(Extension):
    """Marks structs as dataclasses, for which Griffe derives the signature from the fields."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:  # noqa: ANN401 - whatever Griffe passes to its hooks
        """Mark the structs of a package, before Griffe's own extension looks for dataclasses."""
        for struct in _classes(pkg):
            if any(_is_struct(base) for base in struct.bases):
                struct.decorators.append(Decorator(ExprName("dataclasses.dataclass"), lineno=None, endlineno=None))


def _is_struct(base: str | Expr) -> bool:
    return isinstance(base, Expr) and base.canonical_path == "msgspec.Struct"


def _classes(parent: Module | Class) -> Iterator[Class]:
    for member in parent.members.values():
        if isinstance(member, Class):
            yield member
        if isinstance(member, Module | Class):
            yield from _classes(member)
