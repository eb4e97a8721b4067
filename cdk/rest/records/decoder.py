"""Decoder: converts the body of a response to JSON values. The formats are in `cdk.rest.records.decoders`."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Protocol, runtime_checkable

from cdk.base.errors import DecodeError
from cdk.base.records.exact_json import written_integer, written_number
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response


@runtime_checkable
class Decoder(Protocol):
    """Decodes bodies of one format.

    Contract: pure and thread-safe. `decode` returns the whole body as one JSON value, in which `records_path` leads to
    the records. `items` yields the elements of the body one by one, or the body itself if it is not a list. `streams`
    says whether `items` does so in bounded memory; if so, the response may be that to a `Request.stream`. Both raise
    DecodeError: when the body is not in the format. They never return an empty value instead.
    """

    @property
    def streams(self) -> bool:
        """Whether `items` reads a body of any size in bounded memory."""

    def decode(self, response: Response) -> JsonValue:
        """Return the body as a JSON value."""

    def items(self, response: Response) -> Iterator[JsonValue]:
        """Yield the elements of the body one by one."""


class StreamedItems(ABC):
    """Base class of the decoders that read bodies of any size: they decode one to the list of its items."""

    streams: ClassVar[bool] = True

    @abstractmethod
    def items(self, response: Response) -> Iterator[JsonValue]: ...

    def decode(self, response: Response) -> JsonValue:
        return list(self.items(response))


class JsonDocument:
    """Decodes bodies that are one JSON document.

    lenient: whether to read NaN and Infinity, which are not valid JSON but are written by Python and others, as null.
    """

    streams = False

    def __init__(self, *, lenient: bool = False) -> None:
        self._lenient = lenient

    def decode(self, response: Response) -> JsonValue:
        try:
            body: JsonValue = response.json()
        except DecodeError as error:
            if not self._lenient:
                raise
            try:
                body = lenient_json(response.body)
            except (ValueError, RecursionError):
                raise error from None
        return body

    def items(self, response: Response) -> Iterator[JsonValue]:
        return elements(self.decode(response))


def lenient_json(text: bytes | str) -> JsonValue:
    """Parse JSON, with NaN and Infinity as null. Raises ValueError and RecursionError."""
    value: JsonValue = json.loads(
        text, parse_constant=lambda _: None, parse_float=written_number, parse_int=written_integer
    )
    return value


def elements(body: JsonValue) -> Iterator[JsonValue]:
    """Yield the elements of a list, or anything else as the only element."""
    return iter(body) if type(body) is list else iter((body,))
