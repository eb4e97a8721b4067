"""Decoder: from the bytes of a response to a JSON value."""

from typing import Protocol

from cdk.base.values import Json
from cdk.rest.message import Response


class Decoder(Protocol):
    """Reads one format of bodies.

    Contract: pure, and safe to use from several threads. Gives the whole body as one JSON value; `records_path` then
    leads to the records. Raises DecodeError: the body is not in the format, never an empty value in its place.
    """

    def decode(self, response: Response) -> Json:
        """The body as a JSON value."""


class JsonDecoder:
    """Bodies that are one JSON document."""

    def decode(self, response: Response) -> Json:
        return response.json()
