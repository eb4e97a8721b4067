"""Decoder: from the bytes of a response to JSON values. The formats are in `cdk.rest.records.decoders`."""

import json
from collections.abc import Iterator
from typing import Protocol

from cdk.base.errors import DecodeError
from cdk.base.records.exact_json import written_integer, written_number
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response


class Decoder(Protocol):
    """Reads one format of bodies.

    Contract: pure, and safe to use from several threads. `decode` gives the whole body as one JSON value;
    `records_path` then leads to the records. `items` gives the elements of the body one by one: of a body that is no
    list, the body itself. `streams` says whether `items` does so in bounded memory; the response may then be one to a
    `Request.stream`. Both raise DecodeError: the body is not in the format, never an empty value in its place.
    """

    @property
    def streams(self) -> bool:
        """Whether `items` reads a body of any size in bounded memory."""

    def decode(self, response: Response) -> JsonValue:
        """The body as a JSON value."""

    def items(self, response: Response) -> Iterator[JsonValue]:
        """The elements of the body, one by one."""


class JsonDocument:
    """Bodies that are one JSON document.

    lenient: take NaN and Infinity, which JSON does not have, for null, as Python and others write them.
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
    """JSON in which NaN and Infinity stand for null. Raises ValueError and RecursionError."""
    value: JsonValue = json.loads(
        text, parse_constant=lambda _: None, parse_float=written_number, parse_int=written_integer
    )
    return value


def elements(body: JsonValue) -> Iterator[JsonValue]:
    """The elements of a list; of anything else, itself."""
    return iter(body) if type(body) is list else iter((body,))
