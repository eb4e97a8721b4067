"""XML: a document as nested objects."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from cdk.base.errors import DecodeError
from cdk.base.values import FieldValue, JsonValue
from cdk.rest.http.messages import Response
from cdk.rest.records.decoder import elements

_DEPTH = 200
"""Elements inside one another; orjson writes 254 levels at most."""


@dataclass(frozen=True, slots=True)
class XmlDocument:
    """Bodies that are one XML document: `{"root": {"@attribute": "1", "#text": "...", "child": ...}}`.

    A child that occurs several times is a list, an empty one is None. Documents that define entities are refused: a
    few lines of these unfold to gigabytes.
    """

    streams: ClassVar[bool] = False

    def decode(self, response: Response) -> JsonValue:
        from xml.parsers.expat import ExpatError  # noqa: PLC0415 - libraries for those who use them

        import xmltodict  # noqa: PLC0415 - as above

        body = response.body
        try:
            document = xmltodict.parse(body, disable_entities=True)
        except (ExpatError, ValueError, LookupError, RecursionError) as error:
            raise DecodeError(f"{response.request}: the body is no XML that can be read: {error}") from None
        _check_depth(response, document)
        return document

    def items(self, response: Response) -> Iterator[JsonValue]:
        return elements(self.decode(response))


def _check_depth(response: Response, document: JsonValue) -> None:
    level = [document]
    for _ in range(_DEPTH):
        level = [child for value in level for child in _children(value) if type(child) is dict or type(child) is list]
        if not level:
            return
    raise DecodeError(f"{response.request}: the XML of the body is nested deeper than {_DEPTH} elements")


def _children(value: FieldValue) -> Iterator[FieldValue]:
    return iter(value.values() if type(value) is dict else value)
