"""XmlDocument: decodes an XML document to nested objects."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct

from cdk.base.errors import DecodeError
from cdk.base.values import JsonValue, is_deeper
from cdk.rest.http.messages import Response
from cdk.rest.records.decoder import elements

_DEPTH = 200
"""The maximum depth of nested elements; orjson can write at most 254 levels."""


class XmlDocument(Struct, frozen=True):
    """Decodes an XML document to `{"root": {"@attribute": "1", "#text": "...", "child": ...}}`.

    A child that occurs several times becomes a list, an empty one None. Documents that define entities are rejected:
    a few lines of these can expand to gigabytes.
    """

    streams: ClassVar[bool] = False

    def decode(self, response: Response) -> JsonValue:
        from xml.parsers.expat import ExpatError  # noqa: PLC0415 - only needed here

        import xmltodict  # noqa: PLC0415 - as above

        body = response.body
        try:
            document: JsonValue = xmltodict.parse(body, disable_entities=True)
        except (ExpatError, ValueError, LookupError, RecursionError) as error:
            raise DecodeError(f"{response.request}: the body is not readable XML: {error}") from None
        if is_deeper(document, _DEPTH):
            raise DecodeError(f"{response.request}: the XML of the body is nested deeper than {_DEPTH} elements")
        return document

    def items(self, response: Response) -> Iterator[JsonValue]:
        return elements(self.decode(response))
