"""Evaluation: what evaluates an expression, for one scope or for each record of a page, and what it uses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

V = TypeVar("V")

Scope: TypeAlias = Mapping[str, object]
Run: TypeAlias = Callable[[Scope], object]
Column: TypeAlias = Callable[[Scope, Sequence[object]], list[object]]
"""The values for records: what Run gives for a scope in which `record` is one after the other."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How an expression is evaluated. Both functions raise what it does wrong, KeyError for a name that is not there.

    names: those it reads of the scope. varies: a macro in it answers differently each time. quotes: it uses `| string`.
    paths: what it reads of these names, as far as it is written in the expression, each with the name first.
    """

    run: Run
    column: Column
    names: frozenset[str]
    varies: bool = False
    quotes: bool = False
    paths: Sequence[tuple[str, ...]] = ()


def one_by_one(run: Callable[[Scope], V]) -> Callable[[Scope, Sequence[object]], list[V]]:
    """The values for records, by one call for each."""

    def column(scope: Scope, records: Sequence[object]) -> list[V]:
        names = dict(scope)
        values: list[V] = []
        for record in records:
            names["record"] = record
            values.append(run(names))
        return values

    return column
