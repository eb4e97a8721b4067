"""Conditional requests: a response that has not changed is not read again. Streams opt in.

`HttpStream.conditional` returns a stream that can be pickled and sent to where slices are read; there,
`conditional_reads` provides the validators for reading a slice, and collects the new ones.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from http import HTTPStatus
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct, field

from cdk.base.errors import FatalError
from cdk.base.logs import logger
from cdk.base.run import setting
from cdk.base.values import JsonValue, canonical
from cdk.rest.errors.status_errors import error_for
from cdk.rest.http.messages import Request, Response
from cdk.rest.http.redact import query_without
from cdk.rest.http.transport import SliceSender, Transport, slice_sender
from cdk.rest.http_stream import HttpStream
from cdk.state.slice import Slice
from cdk.state.source_state.http_validators import HttpProbe, HttpSnapshot
from cdk.state.source_state.validators import Validators
from cdk.streams.page import Page

PASSING = frozenset(
    {"accept-encoding", "connection", "traceparent", "tracestate", "user-agent", "x-correlation-id", "x-request-id"}
)
"""Headers, in lower case, that do not affect the response: they may differ from run to run."""


class NotModified(FatalError):
    """The source has nothing new at this URL. Not an error, but there is no response to read."""


class ConditionalTransport:
    """Sends each GET with the validators of its last response. Thread-safe; cannot be pickled.

    transport: sends the requests. probe: stores the validators.
    Requests other than GET, and those with conditions of their own, are sent unchanged.
    """

    def __init__(self, transport: Transport, probe: HttpProbe) -> None:
        self._transport, self._probe = transport, probe

    def send(self, request: Request) -> Response:
        """Return the response to `request` if it has changed.

        Raises NotModified: when the server answers 304, when the body equals the previous one, or when a response
        without validators was read not long ago. Raises FatalError: for a 304 to a request without a validator.
        """
        if not _can_be_conditional(request):
            return self._transport.send(request)
        mark = fingerprint(request)
        if self._probe.skips(mark):
            why = f"{request}: its response has no validators and was read recently; it is read again later"
            raise NotModified(why)
        headers = self._probe.headers(mark)
        response = self._transport.send(request.with_headers(headers) if headers else request)
        response = response.with_request(request) if headers else response
        etag, last_modified = response.headers.get("etag") or None, response.headers.get("last-modified") or None
        if response.status == HTTPStatus.NOT_MODIFIED:
            if not headers:
                raise error_for(response)
            self._probe.unchanged(mark, etag, last_modified)
            raise NotModified(f"{request} answered 304 Not Modified")
        if response.status == HTTPStatus.OK:
            body = None if response.is_stream else response.body
            if not self._probe.learn(mark, etag, last_modified, body):
                raise NotModified(f"{request}: the body has not changed since the last read")
        return response

    def __reduce__(self) -> str:
        raise FatalError(
            "a followed stream cannot be sent to another process, where its new validators would be lost; read it in "
            "the process that stores the state"
        )


class ConditionalResult(Struct):
    """The result of reading a slice with conditional requests. Can be pickled.

    request: the fingerprint of the request; None if there was none that can be conditional. validators: those of its
    response now; None if it was no success. unchanged: whether the source had nothing new, so that nothing was read.
    """

    request: str | None = None
    validators: Validators | None = None
    unchanged: bool = False


@contextmanager
def conditional_reads(snapshot: HttpSnapshot) -> Iterator[ConditionalResult]:
    """Make the read of a slice in this block conditional, by the validators in `snapshot`; fills the yielded result.

    The stream must send by a SliceSenderTransport: a `conditional` stream, or that of a manifest.

    The slice may have only one request that can be conditional; retries of it are allowed.
    """
    sender = _ConditionalSender(snapshot.probe())
    by: SliceSender = sender.send
    with setting(slice_sender, by):
        yield sender.result


class _ConditionalSender(Struct):
    probe: HttpProbe
    result: ConditionalResult = field(default_factory=ConditionalResult)

    def send(self, transport: Transport, request: Request) -> Response:
        """Send as ConditionalTransport. Raises as it, and FatalError: for another conditional request of the slice."""
        if not _can_be_conditional(request):
            return transport.send(request)
        mark, result = fingerprint(request), self.result
        if result.request not in (None, mark):
            raise FatalError(
                f"{request} is the second request of a slice, and a source can be followed only if one request reads "
                "a whole slice: an unchanged response says nothing about another one; read it without `follow_source`"
            )
        result.request, result.unchanged = mark, False
        try:
            return ConditionalTransport(transport, self.probe).send(request)
        except NotModified:
            result.unchanged = True
            raise
        finally:
            # A skipped request learns no validators: those that were known remain.
            result.validators = self.probe.learned.get(mark) or (self.probe.known(mark) if result.unchanged else None)


class ConditionalStream(HttpStream):
    """An HttpStream with one request per slice that may be followed: slices that have not changed are not read.

    Without `follow` it behaves like any other HttpStream, at no cost.
    """

    _followed = False

    def follow(self, probe: HttpProbe) -> None:
        """Send conditional requests with the validators of `probe`. Call it before the first read.

        Raises FatalError: when the stream was already read or is already followed.
        """
        if self._retriever is not None or self._followed:
            why = "a stream can be followed only once, before its first read; create another one"
            raise FatalError(why, stream=self.name)
        self.transport, self._followed = ConditionalTransport(self.transport, probe), True

    def read_page(self, slice: Slice, token: Mapping[str, JsonValue] | None) -> Page:
        """Return the only page of a slice, empty if the source has not changed.

        Raises FatalError: when there is a next page, because a validator covers one request and not the following ones.
        """
        try:
            page = super().read_page(slice, token)
        except NotModified as same:
            logger.info("%s: nothing new, %s", self.name, same)
            return Page((), None)
        if page.next is not None and self._followed:
            raise several_pages(self.name, "follow")
        return page


def several_pages(stream: str, option: str) -> FatalError:
    """Return the error for a followed stream with several pages in a slice. option: what makes it followed."""
    return FatalError(
        "a followed stream must have one page per slice, and this one has more: an unchanged first page says nothing "
        f"about the others; read it without `{option}`, or by a cursor",
        stream=stream,
    )


def _can_be_conditional(request: Request) -> bool:
    """Whether a condition may be added to a request: it must be a GET without conditions of its own."""
    return request.method == "GET" and not request.is_conditional


def fingerprint(request: Request) -> str:
    """Return the identity of a request without revealing secrets: `sha256:` and hexadecimal digits.

    Covers method, URL, headers and body. Secrets are omitted, not hashed, so that a new token changes nothing; so are
    the user in the URL and the headers in `PASSING`.
    """
    parts = urlsplit(request.full_url)
    query = query_without(parts.query, lambda name, _: request.is_secret(name))
    url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query))
    headers = sorted(
        (name.lower(), value)
        for name, value in request.headers.items()
        if name.lower() not in PASSING and not request.is_secret(name)
    )
    body = None if request.body is None else request.body.decode("latin-1")
    text = request.hide(canonical([request.method, url, headers, body]))
    return f"sha256:{sha256(text.encode()).hexdigest()}"
