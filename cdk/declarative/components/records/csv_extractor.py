"""The extractor of CSV files; separate from the others because it imports the decoders of all formats."""

from typing import ClassVar

from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_plug_points import AnyExtractor
from cdk.rest import Decoder
from cdk.rest.records.csv_file import FileExtractor
from cdk.rest.records.extractor import Extractor


class ResponseToFileExtractor(AnyExtractor):
    """Reads the rows of a CSV file, which may be larger than memory, and gzipped. All values are strings or null.

    `schema_normalization: Default` of the RecordSelector casts them to the types of the schema. Without it, a field
    that the schema declares as a number stays a string, which does not fit a table's number column.

    Example:
        type: ResponseToFileExtractor
        preserve_na_values: true
    """

    streams: ClassVar[bool] = True
    preserve_na_values: bool = False
    """Whether strings such as `NA`, `null` and `nan` are left as they are instead of becoming null."""

    def build(self, ctx: BuildContext, decoder: Decoder) -> Extractor:
        """Build the extractor. It reads the body itself, whatever the decoder."""
        return FileExtractor(self.preserve_na_values)
