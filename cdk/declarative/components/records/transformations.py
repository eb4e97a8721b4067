"""Transformations that add and remove fields of records."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from cdk.base.errors import FatalError, ManifestError
from cdk.base.logs import logger
from cdk.base.values import JsonObject, JsonValue
from cdk.declarative.interpolation.errors import EvaluationError
from cdk.declarative.interpolation.evaluation import one_by_one
from cdk.declarative.model.component import Adapted, Component
from cdk.declarative.model.context import BuildContext, Expression, Names
from cdk.declarative.model.request_plug_points import AnyTransformation, Transform
from cdk.declarative.syntax import json_edit as edits

Scope: TypeAlias = dict[str, object]

_Types: TypeAlias = tuple[type, ...]
_TYPES: Mapping[str, _Types] = {"string": (str,), "number": (float,), "integer": (int,), "boolean": (bool,)}


def _as_text(value: JsonValue) -> JsonValue:
    return str(value) if isinstance(value, bool | int | float) else value


Text: TypeAlias = Annotated[str, Adapted(before=_as_text)]
"""A string; YAML may also hold it as a number or a boolean."""

Pointers: TypeAlias = Annotated[
    list[list[Text]],
    Meta(
        description="Paths of the fields. In a name, `*`, `?` and `[ab]` are wildcards as in file names; `**` stands "
        "for any number of names."
    ),
]


class AddedFieldDefinition(Component):
    """A field to add, and its value.

    Example:
        type: AddedFieldDefinition
        path: [meta, account_id]
        value: "{{ config['account_id'] }}"
    """

    path: Annotated[list[Text], Meta(min_length=1)]
    """Path of the field. Missing objects on the path are created, and for a name of digits a list, padded with null."""
    value: Text
    """The value; rendered text that spells a literal, such as `10`, becomes that literal."""
    value_type: Literal["string", "number", "integer", "boolean"] | None = None
    """The only type of literal that rendered text may become; everything else stays a string. A `number` has a decimal
    point.
    """

    def build(self, ctx: BuildContext) -> "Addition":
        """Return what to add, and where."""
        path = list(ctx.strings(self, "path"))
        types = _TYPES.get(self.value_type or "", ())
        value = ctx.expression(self, "value")
        template, parameters = value.template, self.parameters
        if template is None:
            return _same(path, value.constant)
        if "parameters" in template.names:
            # A field may have more parameters than the component around it, whose parameters the scope holds.
            return Addition(path, lambda scope: template.value({**scope, "parameters": parameters}, types))
        if not template.fixed:
            return Addition(
                path,
                lambda scope: template.value(scope, types),
                lambda scope, records: template.values(scope, records, types),
            )
        return _same(path, template.value({}, types))


class Addition:
    """A field to add. path: where it goes. value_in: returns its value for one scope of names.

    values_in: returns its values for a page of records. put: puts a value at the path; raises ValueError if it cannot.
    """

    __slots__ = ("path", "put", "value_in", "values_in")

    def __init__(
        self,
        path: list[str],
        value_in: Callable[[Mapping[str, object]], JsonValue],
        values_in: Callable[[Mapping[str, object], Sequence[object]], list[JsonValue]] | None = None,
    ) -> None:
        self.path, self.value_in, self.put = path, value_in, edits.setter(path)
        self.values_in = values_in or one_by_one(value_in)


def _same(path: list[str], value: JsonValue) -> Addition:
    """Return an addition of the same value to all records."""
    if isinstance(value, dict | list):
        # Each record needs a copy of its own, since later steps may change it.
        return Addition(path, lambda _: deepcopy(value))
    return Addition(path, lambda _: value, lambda _, records: [value] * len(records))


class _TextFallback:
    """Falls back to the expression's own text if it does not fit a record's types, as existing connectors do.

    A single odd record does not end the stream; a warning is logged once for each expression. located: returns an error
    with its line in the manifest.
    """

    def __init__(self, located: Callable[[ManifestError], ManifestError]) -> None:
        self._located = located
        self._warned: set[str] = set()

    def text_for(self, error: EvaluationError) -> str:
        """Return the value for the field. Raises `error`: when it has another cause."""
        if not error.incomparable:
            raise error
        if error.expression not in self._warned:
            self._warned.add(error.expression)
            text = "%s; the field gets the text of the expression, in this record and in similar ones"
            logger.warning(text, self._located(error))
        return error.expression


class AddFields(AnyTransformation):
    """Adds fields to records, in order: later ones can read earlier ones.

    Example:
        type: AddFields
        fields:
          - {path: [parent_id], value: "{{ stream_slice['parent_id'] }}"}
    """

    fields: list[AddedFieldDefinition]
    """The fields to add."""
    condition: Text = ""
    """Whether to add a field. Reads the `value` and `path` of the field, and what values read: `record`,
    `stream_slice`. Empty means always.
    """

    def build(self, ctx: BuildContext) -> Transform:
        added = [field.build(ctx) for field in self.fields]
        base: Scope = {"config": ctx.config, "parameters": self.parameters}
        condition = ctx.expression(self, "condition") if self.condition else None
        fallback = _TextFallback(ctx.runtime.located)
        run = _adding(added, base, fallback) if condition is None else _adding_some(added, base, condition, fallback)
        where = ctx.where(self, "fields")

        def checked(records: list[JsonObject], names: Names) -> None:
            try:
                run(records, names)
            except ValueError as error:
                raise FatalError(f"{where}: {error}") from None

        return checked


def _adding(added: list[Addition], base: Scope, fallback: _TextFallback) -> Transform:
    # Field by field rather than record by record: a later field reads earlier ones of its own record only.
    steps = [_adding_one(field, fallback) for field in added]

    def transform(records: list[JsonObject], names: Names) -> None:
        scope = {**base, **names}
        for step in steps:
            step(records, scope)

    return transform


def _adding_one(field: Addition, fallback: _TextFallback) -> Callable[[list[JsonObject], Scope], None]:
    put, name = field.put, field.path[0]

    def value_or_text(scope: Mapping[str, object]) -> JsonValue:
        try:
            return field.value_in(scope)
        except EvaluationError as error:
            return fallback.text_for(error)

    each = one_by_one(value_or_text)

    def add(records: list[JsonObject], scope: Scope) -> None:
        try:
            values = field.values_in(scope, records)
        except EvaluationError:
            values = each(scope, records)
        if len(field.path) == 1:
            for record, value in zip(records, values, strict=True):
                record[name] = value
        else:
            for record, value in zip(records, values, strict=True):
                put(record, value)

    return add


def _adding_some(added: list[Addition], base: Scope, condition: Expression, fallback: _TextFallback) -> Transform:
    def transform(records: list[JsonObject], names: Names) -> None:
        scope = {**base, **names}
        for record in records:
            scope["record"] = record
            for field in added:
                try:
                    value = field.value_in(scope)
                except EvaluationError as error:
                    value = fallback.text_for(error)
                if condition.true({**names, "record": record, "value": value, "path": field.path}):
                    field.put(record, value)

    return transform


class RemoveFields(AnyTransformation):
    """Removes fields from records. A missing field is no error; list elements become null, except the last one.

    Example:
        type: RemoveFields
        field_pointers:
          - [internal_id]
          - [address, "*", geo]
    """

    field_pointers: Pointers
    condition: Text = ""
    """Removes every value for which it is true; reads `property`, the value. As in Airbyte, it is evaluated for all
    values of the record that are not objects or lists, wherever the pointers lead.
    """

    def build(self, ctx: BuildContext) -> Transform:
        removers = removers_of(self, ctx, self.field_pointers)
        if not self.condition:

            def transform(records: list[JsonObject], names: Names) -> None:  # noqa: ARG001
                for remove in removers:
                    for record in records:
                        remove(record)

            return transform
        condition = ctx.expression(self, "condition")

        def transform_some(records: list[JsonObject], names: Names) -> None:
            scope = condition.scope(names)
            template = condition.template

            def is_removed(value: JsonValue) -> bool:
                scope["property"] = value
                return condition.true() if template is None else template.true(scope)

            for record in records:
                # Airbyte: one pass for each pointer. This shows in lists, since each pass may remove the last element.
                for _ in removers:
                    edits.remove_leaves(record, is_removed)

        return transform_some


def removers_of(component: Component, ctx: BuildContext, pointers: list[list[str]]) -> list[edits.Edit]:
    """Return functions that remove what pointers match. Raises ManifestError: when a pointer has more than one `**`."""
    try:
        return [edits.remover(pointer) for pointer in pointers]
    except ValueError as error:
        raise ManifestError(f"{ctx.where(component, 'field_pointers')}: {error}") from None
