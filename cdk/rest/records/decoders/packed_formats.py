"""Gzip files and zip archives as bodies. Content encodings are separate: the transport decodes these."""

import io
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import IO

from msgspec import Struct

from cdk.base.errors import DecodeError
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response
from cdk.rest.http.streamed_response import MAX_BYTES, unpacked
from cdk.rest.records.decoder import Decoder

MAX_RATIO = 200
"""The maximum compression ratio of a body that is held in memory. Text has a ratio of 3 to 30."""

MIN_CHECKED_BYTES = 64 * 2**20
"""Unpacked bytes from which the ratio is checked."""

_MAGIC = b"\x1f\x8b"
_PIECE = 2**18
_GZIP = 16 + zlib.MAX_WBITS


class GzipFile(Struct, frozen=True):
    """Decodes gzip files, whose content `decoder` reads. A body without the gzip signature is read uncompressed."""

    decoder: Decoder

    @property
    def streams(self) -> bool:
        return self.decoder.streams

    def decode(self, response: Response) -> JsonValue:
        return self.decoder.decode(unpacked(response, gunzipped(response, max_ratio=MAX_RATIO)))

    def items(self, response: Response) -> Iterator[JsonValue]:
        ratio = None if self.streams else MAX_RATIO
        return self.decoder.items(unpacked(response, gunzipped(response, max_ratio=ratio)))


def gunzipped(response: Response, *, max_ratio: int | None = None) -> Generator[bytes, None, None]:
    """Yield the body in pieces, unpacked if it is a gzip file.

    max_ratio: the maximum compression ratio; None for no limit. Raises DecodeError: when the ratio is higher, or when
    the file is corrupt or truncated.
    """
    with closing(response.chunks()) as chunks:
        pieces = iter(chunks)
        head = b""
        while len(head) < len(_MAGIC) and (piece := next(pieces, None)) is not None:
            head += piece
        if not head.startswith(_MAGIC):
            if head:
                yield head
            yield from pieces
            return
        yield from _unpack(response, head, pieces, max_ratio)


def _unpack(response: Response, data: bytes, pieces: Iterator[bytes], max_ratio: int | None) -> Iterator[bytes]:
    member, packed, unpacked = zlib.decompressobj(_GZIP), len(data), 0
    while True:
        try:
            out = member.decompress(data, _PIECE)
        except zlib.error as error:
            raise DecodeError(f"{response.request}: the body begins like gzip but is not gzip: {error}") from None
        if out:
            unpacked += len(out)
            if max_ratio is not None and unpacked > max(MIN_CHECKED_BYTES, max_ratio * packed):
                raise too_dense(response, max_ratio)
            yield out
        # Concatenated gzip files count as one; zeros between and after them are padding.
        data = member.unused_data.lstrip(b"\0") if member.eof else member.unconsumed_tail
        if not data and (out == b"" or len(out) < _PIECE or member.eof):
            piece = next(pieces, None)
            if piece is None:
                break
            data, packed = piece, packed + len(piece)
        if member.eof:
            data = data.lstrip(b"\0")
            if data:
                member = zlib.decompressobj(_GZIP)
    if not member.eof:
        raise DecodeError(f"{response.request}: the gzip body is truncated after {packed} bytes")


def too_dense(response: Response, max_ratio: int) -> DecodeError:
    """Return the error for a body with an implausibly high compression ratio."""
    return DecodeError(
        f"{response.request}: the body becomes more than {max_ratio} times larger when it is unpacked; if that "
        "is expected, read it with a decoder that streams (JSON lines, CSV, JSON items)"
    )


class ZipArchive(Struct, frozen=True):
    """Decodes zip archives: `decoder` reads each file in them, in the order of the archive.

    The archive is held in memory; its files are read one after the other, in pieces if `decoder` streams.
    """

    decoder: Decoder

    @property
    def streams(self) -> bool:
        return self.decoder.streams

    def decode(self, response: Response) -> JsonValue:
        return list(self.items(response))

    def items(self, response: Response) -> Iterator[JsonValue]:
        import zipfile  # noqa: PLC0415 - takes 3 ms, and is only needed here

        body = response.body
        unpacking = _Unpacking(
            response, None if self.streams else max(MIN_CHECKED_BYTES, min(MAX_BYTES, MAX_RATIO * len(body)))
        )
        try:
            with zipfile.ZipFile(io.BytesIO(body)) as archive:
                for member in archive.infolist():
                    if not member.is_dir():
                        with archive.open(member) as file:
                            yield from self.decoder.items(unpacked(response, unpacking.pieces(file)))
        # zipfile raises RuntimeError for a file that is encrypted or compressed by an unknown method.
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
            why = f"the body is not a readable zip archive: {error}"
            raise DecodeError(f"{response.request}: {why}") from None


class _Unpacking:
    """Limits the total unpacked size of an archive's files. max_bytes: None for no limit."""

    def __init__(self, response: Response, max_bytes: int | None) -> None:
        self._response, self._remaining = response, max_bytes

    def pieces(self, file: IO[bytes]) -> Generator[bytes, None, None]:
        while piece := file.read(_PIECE):
            if self._remaining is not None:
                self._remaining -= len(piece)
                if self._remaining < 0:
                    raise too_dense(self._response, MAX_RATIO)
            yield piece
