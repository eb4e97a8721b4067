"""Evaluation: evaluates an expression for one scope or for each record of a page, and lists the names it reads."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from msgspec import Struct

V = TypeVar("V")

Scope: TypeAlias = Mapping[str, object]
Run: TypeAlias = Callable[[Scope], object]
Column: TypeAlias = Callable[[Scope, Sequence[object]], list[object]]
"""Computes the values for records: the results of Run for scopes in which `record` is each record in turn."""

# fmt: off
NAMES = frozenset({
    "config", "parameters", "options", "record", "response", "headers", "refresh_token", "value", "parent_record",
    "stream_slice", "stream_partition", "stream_interval", "stream_state", "stream_template_config",
    "next_page_token", "last_record", "last_page_size", "last_page_token_value", "components_values",
    "creation_response", "polling_response", "download_target", "session_token", "property", "raw_schema",
    "query_properties",
})
# fmt: on
"""All names that some place of the language makes available to its expressions."""


class Evaluation(Struct, frozen=True):
    """How to evaluate an expression. Both functions raise the expression's errors, and KeyError for a missing name.

    names: those it reads from the scope. varies: it calls a macro whose result changes. quotes: it uses `| string`.
    paths: the parts of these names that it reads, as far as they are literal; each path starts with the name.
    """

    run: Run
    column: Column
    names: frozenset[str]
    varies: bool = False
    quotes: bool = False
    paths: Sequence[tuple[str, ...]] = ()


def one_by_one(run: Callable[[Scope], V]) -> Callable[[Scope, Sequence[object]], list[V]]:
    """Return a function that computes the values for records with one call for each."""

    def column(scope: Scope, records: Sequence[object]) -> list[V]:
        names = dict(scope)
        values: list[V] = []
        for record in records:
            names["record"] = record
            values.append(run(names))
        return values

    return column
