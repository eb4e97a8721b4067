"""Evaluation: what evaluates an expression, for one scope or for each record of a page, and what it uses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cdk.base.values import Json

Scope: TypeAlias = Mapping[str, Json]
Run: TypeAlias = Callable[[Scope], Json]
Column: TypeAlias = Callable[[Scope, Sequence[Json]], list[Json]]
"""The values for records: what Run gives for a scope in which `record` is one after the other."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How an expression is evaluated. Both functions raise what it does wrong, KeyError for a name that is not there.

    names: those it reads of the scope. varies: a macro in it answers differently each time. quotes: it uses `| string`.
    """

    run: Run
    column: Column
    names: frozenset[str]
    varies: bool = False
    quotes: bool = False


def one_by_one(run: Run) -> Column:
    """The values for records, by one call for each."""

    def column(scope: Scope, records: Sequence[Json]) -> list[Json]:
        names = dict(scope)
        values = []
        for record in records:
            names["record"] = record
            values.append(run(names))
        return values

    return column
