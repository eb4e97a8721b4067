"""The extractor of CSV files, apart from the others: it brings the decoders of all formats."""

from typing import ClassVar

from pydantic import Field

from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.plug_points import AnyExtractor
from cdk.rest import Decoder
from cdk.rest.records.csv_file import FileExtractor
from cdk.rest.records.extractor import Extractor


class ResponseToFileExtractor(AnyExtractor):
    """The rows of a CSV file, which may be larger than memory, and packed with gzip. All values are texts or null.

    `schema_normalization: Default` of the RecordSelector casts them to the types of the schema; without it a number of
    the schema is a text here, which has no place in a table's column of numbers.

    Example:
        type: ResponseToFileExtractor
        preserve_na_values: true
    """

    streams: ClassVar[bool] = True
    preserve_na_values: bool = Field(
        False, description="Whether texts such as `NA`, `null` and `nan` stay as they are, instead of meaning null."
    )

    def build(self, ctx: BuildContext, decoder: Decoder) -> Extractor:
        """The extractor. It reads the body itself, whatever the decoder."""
        return FileExtractor(self.preserve_na_values)
