"""Lines of a body, as bytes, as text or as records, read as they arrive: in C, and never more than one line at once."""

import io
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from cdk.base.errors import ConfigError, DecodeError
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response

MAX_LINE = 64 * 2**20
"""Bytes, or characters, of the longest line; what is longer has no line ends."""

_BUFFER = 2**18


class BodyFile(io.RawIOBase):
    """Pieces of a body as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # what a BufferedReader gives
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def byte_lines(response: Response) -> Generator[bytes, None, None]:
    r"""The lines of the body, each with its end (`\n`). Raises DecodeError: a line is longer than MAX_LINE."""
    with closing(response.chunks()) as chunks, io.BufferedReader(BodyFile(chunks), _BUFFER) as file:
        for line in iter(partial(file.readline, MAX_LINE), b""):
            if len(line) == MAX_LINE:
                raise _too_long(response)
            yield line


def text_lines(response: Response, encoding: str) -> Generator[str, None, None]:
    r"""The lines of the body as text, each ending in `\n`, whatever ended it.

    Raises DecodeError: the bytes are not in `encoding`, or a line is longer than MAX_LINE. Raises ConfigError: there
    is no such encoding.
    """
    with closing(response.chunks()) as chunks, text_file(response, chunks, encoding) as file:
        try:
            for line in iter(partial(file.readline, MAX_LINE), ""):
                if len(line) == MAX_LINE:
                    raise _too_long(response)
                yield line
        except UnicodeError as error:
            raise not_encoded(response, encoding, error) from None


def text_file(response: Response, pieces: Iterator[bytes], encoding: str) -> io.TextIOWrapper:
    """Pieces of a body as a text file."""
    try:
        return io.TextIOWrapper(io.BufferedReader(BodyFile(pieces), _BUFFER), encoding)
    except LookupError:
        raise ConfigError(f"{response.request}: there is no encoding {encoding!r}; use one such as utf-8") from None


def not_encoded(response: Response, encoding: str, error: UnicodeError) -> DecodeError:
    """The error for bytes that are not in `encoding`. Shows none of them."""
    why = f"byte {error.object[error.start]:#04x}" if isinstance(error, UnicodeDecodeError) else "its end"
    return DecodeError(f"{response.request}: the body is not {encoding} ({why}); set the `encoding` that it has")


def _too_long(response: Response) -> DecodeError:
    limit = MAX_LINE // 2**20
    return DecodeError(f"{response.request}: the body has a line of more than {limit} MiB; check that it has line ends")


@dataclass(frozen=True, slots=True)
class TextLines:
    """Bodies of text lines: each becomes `{"record": line}`, an empty one, too."""

    streams: ClassVar[bool] = True

    def decode(self, response: Response) -> JsonValue:
        return list(self.items(response))

    def items(self, response: Response) -> Iterator[JsonValue]:
        for line in text_lines(response, "utf-8"):
            yield {"record": line.removesuffix("\n")}
