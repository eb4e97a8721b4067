"""StreamedResponse: a response whose body is read in pieces, because it may be larger than memory."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from hashlib import blake2b
from typing import Protocol

from cdk.base.errors import BugError, CdkError, DecodeError, TransientError
from cdk.rest.http.messages import Headers, Request, Response

MAX_BYTES = 512 * 2**20
"""The default limit of a body that is read into memory at once."""


class Pieces(Iterator[bytes], Protocol):
    """The pieces of a body; `close` releases their connection."""

    def close(self) -> None:
        """Stop reading. Calling it again does nothing."""


class StreamedResponse(Response):
    """A response whose body has not been read yet: read it once, in pieces with `chunks` or as a whole with `body`.

    pieces: the body, decompressed. max_bytes: the largest body that `body` reads.
    `body` raises DecodeError: when it is larger. Both raise what the transport raises when a response is truncated.
    """

    __slots__ = ("_joined", "_max_bytes", "_pieces")

    def __init__(
        self, status: int, headers: Headers, pieces: Pieces, url: str, request: Request, *, max_bytes: int = MAX_BYTES
    ) -> None:
        # Not the `__init__` of the base class, which sets `body`, a property here.
        self.status, self.headers, self.url, self.request = status, headers, url, request
        self._decoded = self._rest = None
        self._pieces: Pieces | None = pieces
        self._joined: bytes | None = None
        self._max_bytes = max_bytes

    @property
    def is_stream(self) -> bool:
        return True

    @property
    def body(self) -> bytes:  # type: ignore[override] # read-only here
        """The whole body, read on first use."""
        body = self._joined
        if body is None:
            with closing(self._take_pieces()) as pieces:
                try:
                    body = joined(pieces, self._max_bytes, self.request)
                except CdkError as error:
                    # A later access, for example by an error message, raises the same error again.
                    self._pieces = _missing(error)
                    raise
            self._joined = body
        return body

    def chunks(self) -> Generator[bytes, None, None]:
        """Yield the body in pieces. Raises BugError: when it was already read in pieces."""
        if self._joined is not None:
            return super().chunks()
        return _until_closed(self._take_pieces())

    def close(self) -> None:
        if self._pieces is not None:
            self._take_pieces().close()

    def with_request(self, request: Request) -> "StreamedResponse":
        return StreamedResponse(
            self.status, self.headers, self._take_pieces(), self.url, request, max_bytes=self._max_bytes
        )

    def continued(self, again: Callable[[CdkError], Response]) -> "StreamedResponse":
        """Return this response with a body that continues, where reading fails, with the body of another response.

        again: returns another response to the same request, or raises the error that it receives. The beginning of its
        body, which is skipped, must be identical to what was read; if not, reading raises TransientError.
        """
        pieces = _Continued(self._take_pieces(), again)
        return StreamedResponse(self.status, self.headers, pieces, self.url, self.request, max_bytes=self._max_bytes)

    def _take_pieces(self) -> Pieces:
        pieces = self._pieces
        if pieces is None:
            raise BugError(f"{self.request}: the body of this response was already read, and is not retained")
        self._pieces = None
        return pieces

    def __repr__(self) -> str:
        return f"<{self.status} to {self.request}, streamed>"


class _OtherBody(TransientError):
    """The bodies of two responses to a request begin differently."""


class _Continued:
    """The pieces of a body that is requested again, and continues behind what was read, where reading fails."""

    def __init__(self, pieces: Pieces, again: Callable[[CdkError], Response]) -> None:
        self._pieces, self._again = pieces, again
        self._length, self._digest = 0, blake2b()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while True:
            try:
                piece = next(self._pieces)
            except _OtherBody:
                raise
            except CdkError as error:
                self.close()
                self._pieces = _behind(self._length, self._digest.digest(), self._again(error).chunks(), error)
            else:
                self._length += len(piece)
                self._digest.update(piece)
                return piece

    def close(self) -> None:
        self._pieces.close()


def _behind(
    length: int, digest: bytes, pieces: Generator[bytes, None, None], error: CdkError
) -> Generator[bytes, None, None]:
    """Yield a body behind its first `length` bytes. Raises _OtherBody: when these do not have the digest."""
    beginning, missing, rest = blake2b(), length, b""
    with closing(pieces):
        while missing and (piece := next(pieces, b"")):
            beginning.update(piece[:missing])
            rest, missing = piece[missing:], max(0, missing - len(piece))
        if missing or beginning.digest() != digest:
            raise _OtherBody(
                f"{error.message}; requested again, the body begins differently, so that the records that were passed "
                "on cannot be skipped; read the stream again, in smaller slices if this happens often"
            )
        if rest:
            yield rest
        yield from pieces


def unpacked(response: Response, pieces: Pieces) -> StreamedResponse:
    """Return the response with another body, which was unpacked from its own."""
    return StreamedResponse(response.status, response.headers, pieces, response.url, response.request)


def joined(pieces: Iterable[bytes], max_bytes: int, request: Request) -> bytes:
    """Join all pieces. Raises DecodeError: when they exceed `max_bytes`."""
    read, size = [], 0
    for piece in pieces:
        size += len(piece)
        if size > max_bytes:
            raise DecodeError(
                f"{request}: the body is larger than {max_bytes // 2**20} MiB, too large to be read at once; use a "
                "decoder that streams (JSON items, JSON lines, CSV), or request smaller pages"
            )
        read.append(piece)
    return read[0] if len(read) == 1 else b"".join(read)


def _missing(error: CdkError) -> Generator[bytes, None, None]:
    yield from ()
    raise error


def _until_closed(pieces: Pieces) -> Generator[bytes, None, None]:
    try:
        yield from pieces
    finally:
        pieces.close()
