"""The formats of bodies, one a module. What packs (gzip, zip) has a decoder of its own for what is packed."""

from cdk.rest.records.decoder import Decoder, JsonDecoder
from cdk.rest.records.decoders.csv_rows import CsvDecoder
from cdk.rest.records.decoders.gzipped import GzipDecoder
from cdk.rest.records.decoders.json_items import JsonItemsDecoder
from cdk.rest.records.decoders.json_lines import JsonlDecoder
from cdk.rest.records.decoders.text_lines import IterableDecoder
from cdk.rest.records.decoders.xml_document import XmlDecoder
from cdk.rest.records.decoders.zipped import ZipfileDecoder

__all__ = [
    "CsvDecoder",
    "Decoder",
    "GzipDecoder",
    "IterableDecoder",
    "JsonDecoder",
    "JsonItemsDecoder",
    "JsonlDecoder",
    "XmlDecoder",
    "ZipfileDecoder",
]
