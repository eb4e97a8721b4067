"""The formats of bodies, one a module. What packs (gzip, zip) has a decoder of its own for what is packed."""

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
