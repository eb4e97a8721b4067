"""Decoders: the formats of response bodies."""

import codecs
from typing import Annotated, TypeAlias

from msgspec import Meta

from cdk import rest
from cdk.base.errors import ConfigError, ManifestError
from cdk.declarative.model.component import Adapted
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_plug_points import AnyDecoder
from cdk.rest import Decoder


def _known(name: str) -> str:
    try:
        codecs.lookup(name or "utf-8")
    except LookupError:
        raise ValueError(f"there is no encoding {name!r}; use one such as utf-8") from None
    return name


Encoding: TypeAlias = Annotated[str, Adapted(after=_known)]
"""The name of a character encoding."""


class JsonDecoder(AnyDecoder):
    """Decodes a JSON document. A list yields its elements; NaN and Infinity become null. This is the default.

    Example:
        type: JsonDecoder
    """

    def build(self, ctx: BuildContext) -> Decoder:
        return rest.JsonDocument(lenient=True)


class JsonItemsDecoder(AnyDecoder):
    """Yields the elements of a list in a JSON document that is too large for memory, while the document arrives.

    `field_path` starts in each of these elements, so it is usually empty.

    Example:
        type: JsonItemsDecoder
        items_path: data.users
    """

    items_path: Annotated[str, Meta(min_length=1)]
    """Path of the list, with dots between names; `item` stands for the elements of a list on the path."""
    encoding: Encoding = "utf-8"
    """Character encoding of the body."""

    def build(self, ctx: BuildContext) -> Decoder:
        return rest.JsonItems(self.items_path, self.encoding)


class JsonlDecoder(AnyDecoder):
    """Decodes bodies with one JSON value on each line.

    Example:
        type: JsonlDecoder
    """

    lenient: bool | None = False
    """Skip lines that are not valid JSON, with a warning, and read NaN and Infinity as null. Otherwise such a line is
    an error.
    """

    def build(self, ctx: BuildContext) -> Decoder:
        return rest.Jsonl(lenient=bool(self.lenient))


class CsvDecoder(AnyDecoder):
    """Decodes tables of text: rows of strings, named by the first row.

    `schema_normalization: Default` of the RecordSelector casts them to the types of the schema. Without it, a field
    that the schema declares as a number stays a string, which does not fit a table's number column.

    Example:
        type: CsvDecoder
        delimiter: ";"
        set_values_to_none: ["", "null"]
    """

    encoding: Encoding | None = "utf-8"
    """Character encoding of the body."""
    delimiter: str | None = ","
    r"""The character between values, or its escape sequence, such as `\t`."""
    set_values_to_none: list[str] | None = None
    """Strings that become null."""

    def build(self, ctx: BuildContext) -> Decoder:
        """Build the decoder. Raises ManifestError: when the delimiter is invalid."""
        none = frozenset(self.set_values_to_none or ())
        try:
            return rest.CsvRows(self.encoding or "utf-8", self.delimiter or ",", none)
        except ConfigError as error:
            raise ManifestError(f"{ctx.where(self, 'delimiter')}: {error.message}") from None


class IterableDecoder(AnyDecoder):
    """Decodes lines of text; each becomes a record `{"record": line}`.

    Example:
        type: IterableDecoder
    """

    def build(self, ctx: BuildContext) -> Decoder:
        return rest.TextLines()


class XmlDecoder(AnyDecoder):
    """Decodes XML: elements become objects, attributes `@name`, text beside them `#text`, and repeated elements lists.

    Example:
        type: XmlDecoder
    """

    def build(self, ctx: BuildContext) -> Decoder:
        return rest.XmlDocument()


class GzipDecoder(AnyDecoder):
    """Decompresses gzip bodies. A body that is not compressed is read as it is.

    Example:
        type: GzipDecoder
        decoder: {type: CsvDecoder}
    """

    decoder: AnyDecoder
    """Decodes the decompressed body."""

    def build(self, ctx: BuildContext) -> Decoder:
        return rest.GzipFile(self.decoder.build(ctx))


class ZipfileDecoder(AnyDecoder):
    """Decodes zip archives, with the records of all files in them, in order.

    Example:
        type: ZipfileDecoder
        decoder: {type: CsvDecoder}
    """

    decoder: AnyDecoder
    """Decodes each file of the archive."""

    def build(self, ctx: BuildContext) -> Decoder:
        return rest.ZipArchive(self.decoder.build(ctx))
