"""The formats of bodies, one a module. What packs (gzip, zip) has a decoder of its own for what is packed."""

from cdk.rest.records.decoder import Decoder, JsonDocument
from cdk.rest.records.decoders.csv_rows import CsvRows
from cdk.rest.records.decoders.gzipped import GzipFile
from cdk.rest.records.decoders.json_items import JsonItems
from cdk.rest.records.decoders.json_lines import Jsonl
from cdk.rest.records.decoders.lines import TextLines
from cdk.rest.records.decoders.xml_document import XmlDocument
from cdk.rest.records.decoders.zipped import ZipArchive

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
