"""Decoder: from the bytes of a response to JSON values. The formats are in `cdk.rest.records.decoders`."""

import json
from collections.abc import Iterator
from typing import Protocol

from cdk.base.errors import DecodeError
from cdk.base.values import Json
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

    def decode(self, response: Response) -> Json:
        """The body as a JSON value."""

    def items(self, response: Response) -> Iterator[Json]:
        """The elements of the body, one by one."""


class JsonDocument:
    """Bodies that are one JSON document.

    lenient: take NaN and Infinity, which JSON does not have, for null, as Python and others write them.
    """

    streams = False

    def __init__(self, *, lenient: bool = False) -> None:
        self._lenient = lenient

    def decode(self, response: Response) -> Json:
        try:
            return response.json()
        except DecodeError:
            if not self._lenient:
                raise
            try:
                return json.loads(response.body, parse_constant=lambda _: None)
            except (ValueError, RecursionError):
                pass
            raise

    def items(self, response: Response) -> Iterator[Json]:
        return elements(self.decode(response))


def elements(body: Json) -> Iterator[Json]:
    """The elements of a list; of anything else, itself."""
    return iter(body) if type(body) is list else iter((body,))
