"""Zip: bodies that are zip archives."""

import io
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import IO

from cdk.base.errors import DecodeError
from cdk.base.values import JsonValue
from cdk.rest.http.messages import Response
from cdk.rest.http.streamed_response import MAX_BYTES, unpacked
from cdk.rest.records.decoder import Decoder
from cdk.rest.records.decoders.gzipped import FREE, MAX_RATIO, too_dense

_PIECE = 2**18


@dataclass(frozen=True, slots=True)
class ZipArchive:
    """Bodies that are zip archives; every file in them is what `decoder` reads, in the archive's order.

    The archive is held in memory; its files are read one after the other, piece by piece if `decoder` streams.
    """

    decoder: Decoder

    @property
    def streams(self) -> bool:
        return self.decoder.streams

    def decode(self, response: Response) -> JsonValue:
        return list(self.items(response))

    def items(self, response: Response) -> Iterator[JsonValue]:
        import zipfile  # noqa: PLC0415 - takes 3 ms, for those who use it

        body = response.body
        unpacking = _Unpacking(response, None if self.streams else max(FREE, min(MAX_BYTES, MAX_RATIO * len(body))))
        try:
            with zipfile.ZipFile(io.BytesIO(body)) as archive:
                for member in archive.infolist():
                    if not member.is_dir():
                        with archive.open(member) as file:
                            yield from self.decoder.items(unpacked(response, unpacking.pieces(file)))
        # RuntimeError is how zipfile says that a file is encrypted, or packed in a way it does not know.
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
            why = f"the body is no zip archive that can be read: {error}"
            raise DecodeError(f"{response.request}: {why}") from None


class _Unpacking:
    """Counts what the files of an archive become. left: bytes that may still be unpacked; None for any number."""

    def __init__(self, response: Response, max_bytes: int | None) -> None:
        self._response, self._left = response, max_bytes

    def pieces(self, file: IO[bytes]) -> Generator[bytes, None, None]:
        while piece := file.read(_PIECE):
            if self._left is not None:
                self._left -= len(piece)
                if self._left < 0:
                    raise too_dense(self._response, MAX_RATIO)
            yield piece
