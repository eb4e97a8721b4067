"""Decoders: the formats of bodies."""

import codecs

from pydantic import Field, field_validator

from cdk.base.errors import ConfigError, ManifestError
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.plug_points import AnyDecoder
from cdk.rest import Decoder
from cdk.rest.records import decoders


def _encoding(name: str | None) -> str | None:
    try:
        codecs.lookup(name or "utf-8")
    except LookupError:
        raise ValueError(f"there is no encoding {name!r}; use one such as utf-8") from None
    return name


class JsonDecoder(AnyDecoder):
    """Bodies that are one JSON document. A list gives its elements, NaN and Infinity are null. This is the default.

    Example:
        type: JsonDecoder
    """

    def build(self, ctx: BuildContext) -> Decoder:
        return decoders.JsonDocument(lenient=True)


class JsonItemsDecoder(AnyDecoder):
    """The elements of a list in a JSON document that is too large for memory, read while the document arrives.

    Each element is then what `field_path` begins in, so that is usually empty.

    Example:
        type: JsonItemsDecoder
        items_path: data.users
    """

    items_path: str = Field(
        min_length=1,
        description="Names that lead to the list, with dots between them; `item` stands for the elements of a list on "
        "the way.",
    )
    encoding: str = Field("utf-8", description="Encoding of the body.")

    _known = field_validator("encoding")(_encoding)

    def build(self, ctx: BuildContext) -> Decoder:
        return decoders.JsonItems(self.items_path, self.encoding)


class JsonlDecoder(AnyDecoder):
    """Bodies with a JSON value on each line.

    Example:
        type: JsonlDecoder
    """

    lenient: bool | None = Field(
        False,
        description="Skip a line that is no JSON, with a warning, and take NaN and Infinity for null. Without it such "
        "a line is an error.",
    )

    def build(self, ctx: BuildContext) -> Decoder:
        return decoders.Jsonl(lenient=bool(self.lenient))


class CsvDecoder(AnyDecoder):
    """Tables: rows of texts under the names in the first row.

    `schema_normalization: Default` of the RecordSelector casts them to the types of the schema; without it a number of
    the schema is a text here, which has no place in a table's column of numbers.

    Example:
        type: CsvDecoder
        delimiter: ";"
        set_values_to_none: ["", "null"]
    """

    encoding: str | None = Field("utf-8", description="Encoding of the body.")
    delimiter: str | None = Field(",", description=r"What is between values: one character, or an escape as in `\t`.")
    set_values_to_none: list[str] | None = Field(None, description="Texts that mean that there is no value.")

    _known = field_validator("encoding")(_encoding)

    def build(self, ctx: BuildContext) -> Decoder:
        """The decoder. Raises ManifestError: the delimiter is none."""
        none = frozenset(self.set_values_to_none or ())
        try:
            return decoders.CsvRows(self.encoding or "utf-8", self.delimiter or ",", none)
        except ConfigError as error:
            raise ManifestError(f"{ctx.where(self, 'delimiter')}: {error.message}") from None


class IterableDecoder(AnyDecoder):
    """Bodies of text lines; each is a record `{"record": line}`.

    Example:
        type: IterableDecoder
    """

    def build(self, ctx: BuildContext) -> Decoder:
        return decoders.TextLines()


class XmlDecoder(AnyDecoder):
    """XML: elements become objects, attributes are `@name`, a text beside them is `#text`, repeated elements are lists.

    Example:
        type: XmlDecoder
    """

    def build(self, ctx: BuildContext) -> Decoder:
        return decoders.XmlDocument()


class GzipDecoder(AnyDecoder):
    """Bodies that are gzip files. One that is not packed is read as it is.

    Example:
        type: GzipDecoder
        decoder: {type: CsvDecoder}
    """

    decoder: AnyDecoder = Field(description="Reads what is in the file.")

    def build(self, ctx: BuildContext) -> Decoder:
        return decoders.GzipFile(self.decoder.build(ctx))


class ZipfileDecoder(AnyDecoder):
    """Bodies that are zip archives; the records of all files in them, in order.

    Example:
        type: ZipfileDecoder
        decoder: {type: CsvDecoder}
    """

    decoder: AnyDecoder = Field(description="Reads each file of the archive.")

    def build(self, ctx: BuildContext) -> Decoder:
        return decoders.ZipArchive(self.decoder.build(ctx))
