"""The decoders, one format per module. Those of compressed formats (gzip, zip) take a decoder for the content."""

from cdk.rest.records.decoder import Decoder, JsonDocument
from cdk.rest.records.decoders.json_items import JsonItems
from cdk.rest.records.decoders.packed_formats import GzipFile, ZipArchive
from cdk.rest.records.decoders.text_formats import CsvRows, Jsonl, TextLines
from cdk.rest.records.decoders.xml_document import XmlDocument

__all__ = [
    "CsvRows",
    "Decoder",
    "GzipFile",
    "JsonDocument",
    "JsonItems",
    "Jsonl",
    "TextLines",
    "XmlDocument",
    "ZipArchive",
]
