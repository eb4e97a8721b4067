"""Transformations that move fields of nested objects to the top level of records."""

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject
from cdk.declarative.components.records.transformations import Text
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext, Names
from cdk.declarative.model.request_plug_points import AnyTransformation, Transform
from cdk.declarative.syntax import json_edit as edits


class FlattenFields(AnyTransformation):
    """Moves the values of nested objects to the top level of records, under their own names.

    If a name is taken, and inside of lists, the name of the enclosing field is put in front: `parent.child`.

    Example:
        type: FlattenFields
        flatten_lists: false
    """

    flatten_lists: bool = True
    """Whether the elements of lists become fields too: `list.0`, `list.1`."""

    def build(self, ctx: BuildContext) -> Transform:
        lists = self.flatten_lists

        def transform(records: list[JsonObject], names: Names) -> None:  # noqa: ARG001
            for record in records:
                flat = flattened(record, lists=lists)
                record.clear()
                record.update(flat)

        return transform


def flattened(record: JsonObject, *, lists: bool) -> JsonObject:
    """Return the innermost values of a record, the last first, as Airbyte orders them."""
    flat: JsonObject = {}
    stack = [(value, name) for name, value in record.items()]
    # Airbyte: from the first list on, all values get the longer name.
    listed = False
    while stack:
        value, name = stack.pop()
        if isinstance(value, dict):
            inner = value.items()
        elif isinstance(value, list) and lists:
            inner = {str(i): child for i, child in enumerate(value)}.items()
            listed = listed or bool(value)
        else:
            flat[name] = value
            continue
        stack.extend((child, f"{name}.{key}" if listed or key in flat else key) for key, child in inner)
    return flat


class KeyTransformation(Component):
    """A prefix and a suffix for the names of fields.

    Example:
        type: KeyTransformation
        prefix: properties_
    """

    prefix: Text | None = None
    """Prefix of each name."""
    suffix: Text | None = None
    """Suffix of each name."""

    def build(self, ctx: BuildContext) -> tuple[str, str]:
        """Return the prefix and the suffix."""
        return (
            "" if self.prefix is None else str(ctx.expression(self, "prefix").value()),
            "" if self.suffix is None else str(ctx.expression(self, "suffix").value()),
        )


class DpathFlattenFields(AnyTransformation):
    """Moves the fields of a nested object to the top level of records.

    A record stays as it is if it has no such object or, without `replace_record`, if one of the names is taken.

    Example:
        type: DpathFlattenFields
        field_path: [attributes]
        delete_origin_value: true
    """

    field_path: list[Text]
    """Path of the object; `*` stands for the first of several."""
    delete_origin_value: bool | None = None
    """Whether the nested object is removed."""
    replace_record: bool | None = None
    """Whether the fields of the object replace the complete record."""
    key_transformation: KeyTransformation | None = None
    """Adds a prefix and a suffix to the names."""

    def build(self, ctx: BuildContext) -> Transform:
        """Return the function that changes a page of records. Raises ManifestError: when the path has a `**`."""
        path = [str(ctx.expression(self, "field_path", part).value()) for part in self.field_path]
        if "**" in path:
            raise ManifestError(f"{ctx.where(self, 'field_path')}: found {path!r}, expected no `**`")
        remove = edits.remover(path)
        before, after = ("", "") if self.key_transformation is None else self.key_transformation.build(ctx)

        def transform(records: list[JsonObject], names: Names) -> None:  # noqa: ARG001
            for record in records:
                inner = next(iter(edits.matches_at(record, path)), None)
                if not isinstance(inner, dict):
                    continue
                fields = {f"{before}{name}{after}": value for name, value in inner.items()}
                if self.replace_record and fields:
                    record.clear()
                elif not fields.keys().isdisjoint(record):
                    continue
                elif self.delete_origin_value:
                    remove(record)
                record.update(fields)

        return transform
