"""Extractors: find the records in a response."""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Literal

from msgspec import Meta

from cdk.base.errors import ManifestError
from cdk.base.values import Record
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_plug_points import AnyExtractor
from cdk.declarative.model.stream_plug_points import AnyRetriever, StreamParts
from cdk.rest import Decoder
from cdk.rest.records import expand as records_expand
from cdk.rest.records import extractor as records
from cdk.state.slice import Partition, Slice
from cdk.streams.page import records_in

_GLOBS = frozenset("*?[")


class ParentFieldPath(Component):
    """A value of a record that is copied into each element expanded from it.

    Example:
        type: ParentFieldPath
        parent_path: [id]
        record_path: [invoice_id]
    """

    parent_path: Annotated[list[str], Meta(min_length=1)]
    """Path of the value in the record; a missing value is copied as null."""
    record_path: Annotated[list[str], Meta(min_length=1)]
    """Path of the copy in the element. Missing objects on the path are created; an existing value is replaced."""

    def build(self, ctx: BuildContext) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return _single(self, ctx, "parent_path"), _single(self, ctx, "record_path")


class RecordExpander(Component):
    """Turns each element of a list inside a record into a record.

    Example:
        type: RecordExpander
        expand_records_from_field: [lines, data]
        parent_fields:
          - {type: ParentFieldPath, parent_path: [id], record_path: [invoice_id]}
    """

    expand_records_from_field: list[str]
    """Path of the list in a record; `*` stands for every element or value, which expands several lists."""
    remain_original_record: bool = False
    """Whether each element gets the complete record as `original_record`."""
    on_no_records: Literal["skip", "emit_parent"] = "skip"
    """What happens to a record whose list is missing or empty: it is skipped or emitted unchanged."""
    parent_fields: list[ParentFieldPath] = []
    """Values of the record that are copied into each element."""
    merge_parent: bool = False
    """Whether each element gets all fields of the record but the list; its own take precedence."""
    truncation_indicator_path: list[str] = []
    """Path of a value in the record that is true if the list is truncated."""
    truncated_list_retriever: AnyRetriever | None = None
    """Reads the complete list if it is truncated; `stream_slice['parent_record']` is the record."""

    def build(self, ctx: BuildContext) -> Callable[[records.Records], Iterator[records.Records]]:
        """Return the function from the records of a page to the expanded records, in pages."""
        cut = None
        if self.truncation_indicator_path:
            fetch = _fetch(self.truncated_list_retriever, ctx)
            cut = records_expand.Truncation(_single(self, ctx, "truncation_indicator_path"), fetch)
        elif self.truncated_list_retriever is not None:
            where = ctx.where(self, "truncated_list_retriever")
            why = f"{where}: needs `truncation_indicator_path`, which tells when a list is truncated; set it"
            raise ManifestError(why)
        single = cut is not None and cut.fetch is not None
        return records_expand.Expander(
            _single(self, ctx, "expand_records_from_field")
            if single
            else ctx.strings(self, "expand_records_from_field"),
            remain_original=self.remain_original_record,
            emit_parent=self.on_no_records == "emit_parent",
            merge_parent=self.merge_parent,
            parent_fields=tuple(copied.build(ctx) for copied in self.parent_fields),
            truncation=cut,
        )


class DpathExtractor(AnyExtractor):
    """Extracts the records at a path of the body: the elements of a list, or a single object.

    Example:
        type: DpathExtractor
        field_path: [data, users]
    """

    field_path: list[str | int]
    """Path of the records; `*` stands for every element of a list or value of an object. Empty if the body itself is
    the records. If the body is a list, the path is applied to each element.
    """
    record_expander: RecordExpander | None = None
    """Turns the elements of a list inside each record into records."""

    def build(self, ctx: BuildContext, decoder: Decoder) -> records.Extractor:
        """Build the extractor; its `values` returns what is at the path, whether or not these are records."""
        expand = None if self.record_expander is None else self.record_expander.build(ctx)
        return records.FieldExtractor(decoder, ctx.strings(self, "field_path"), expand)


class CombinedExtractor(AnyExtractor):
    """Extracts the records that several extractors find in the same response.

    Example:
        type: CombinedExtractor
        mode: first_match
        extractors:
          - {type: DpathExtractor, field_path: [data, items]}
          - {type: DpathExtractor, field_path: [next_items_page, items]}
    """

    extractors: Annotated[list[AnyExtractor], Meta(min_length=1)]
    """The extractors, in order."""
    mode: Literal["union", "first_match"] = "union"
    """`union`: the records of all extractors. `first_match`: those of the first that finds any."""
    skip_empty_records: bool = False
    """Whether to omit empty records; an extractor that finds only empty records then counts as finding none."""

    def build(self, ctx: BuildContext, decoder: Decoder) -> records.Extractor:
        """Build the extractor. Raises ManifestError: when the decoder streams bodies, which can be read only once."""
        if decoder.streams:
            raise ManifestError(
                f"{ctx.where(self, 'extractors')}: a {type(decoder).__name__} gives a body once, and each "
                "extractor reads it; use one extractor, or a decoder that holds the body, such as JsonDecoder"
            )
        return records.ExtractorGroup(
            [extractor.build(ctx, decoder) for extractor in self.extractors],
            first_match=self.mode == "first_match",
            skip_empty=self.skip_empty_records,
        )


def _single(component: Component, ctx: BuildContext, field: str) -> tuple[str, ...]:
    """Return a path that leads to a single place. Raises ManifestError: when it has wildcards."""
    where = ctx.strings(component, field)
    if any(_GLOBS & set(name) for name in where):
        written = " > ".join(where)
        raise ManifestError(f"{ctx.where(component, field)}: found {written}, expected names without `*`, `?` and `[`")
    return where


def _fetch(retriever: AnyRetriever | None, ctx: BuildContext) -> Callable[[Record], Iterable[Record]] | None:
    """Return the function that reads the complete list of a record; None without a retriever."""
    if retriever is None:
        return None
    reader = retriever.build(ctx, StreamParts(name=ctx.stream))

    return lambda record: records_in(reader.read(Slice(Partition({"parent_record": record}))))
