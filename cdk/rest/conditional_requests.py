"""Conditional requests: a response that has not changed is not read again. For streams that ask for it.

`HttpStream.conditional` gives a stream that travels to where slices are read; `conditional_reads` passes the validators
to the reading of a slice there, and collects the new ones.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from cdk.base.errors import FatalError
from cdk.base.logs import logger
from cdk.base.run import setting
from cdk.base.values import JsonValue, canonical
from cdk.rest.errors.status_errors import error_for
from cdk.rest.http.conditional_transport import Asker, asker
from cdk.rest.http.messages import Request, Response
from cdk.rest.http.transport import Transport
from cdk.rest.http_stream import HttpStream
from cdk.state.slice import Slice
from cdk.state.source_state.http_validators import HttpProbe, HttpSnapshot
from cdk.state.source_state.validators import Validators
from cdk.streams.page import Page

PASSING = frozenset(
    {"accept-encoding", "connection", "traceparent", "tracestate", "user-agent", "x-correlation-id", "x-request-id"}
)
"""Headers, in lower case, that say nothing about what is asked for: they may differ from run to run."""


class NotModified(FatalError):
    """The source has nothing new at this address: no error, but no response to read either."""


class ConditionalTransport:
    """Sends each GET with the validators of its last response. Safe to use from several threads; does not travel.

    transport: what really sends. probe: remembers the validators. passing: headers that may differ without its being
    another request. Everything but a GET goes through as it is, and so does what has conditions of its own.
    """

    def __init__(self, transport: Transport, probe: HttpProbe, *, passing: Collection[str] = PASSING) -> None:
        self._transport, self._probe = transport, probe
        self._passing = frozenset(name.lower() for name in passing)

    def send(self, request: Request) -> Response:
        """The response to `request`, if there is anything new in it.

        Raises NotModified: the server says so (304), or the body is the one of the last time, or a response that cannot
        be validated was read not long ago. Raises FatalError: a 304 to a request that had no validator.
        """
        if not _conditional(request):
            return self._transport.send(request)
        mark = fingerprint(request, self._passing)
        if self._probe.skips(mark):
            raise NotModified(f"{request}: it has no validators and was read not long ago; it is read again later")
        headers = self._probe.headers(mark)
        conditional = request.with_headers(headers) if headers else request
        response = self._transport.send(conditional)
        response = response.with_request(request) if headers else response
        etag, moment = response.headers.get("etag") or None, response.headers.get("last-modified") or None
        if response.status == HTTPStatus.NOT_MODIFIED:
            if not headers:
                raise error_for(response)
            self._probe.unchanged(mark, etag, moment)
            raise NotModified(f"{request} answered 304 Not Modified")
        if response.status == HTTPStatus.OK:
            body = None if response.is_stream else response.body
            if not self._probe.learn(mark, etag, moment, body):
                raise NotModified(f"{request}: the body is the same as the last time")
        return response

    def __reduce__(self) -> str:
        raise FatalError(
            "a followed stream was about to travel to another process, and what it learns there would be lost; "
            "read it in the process that keeps the state"
        )


@dataclass(slots=True)
class ConditionalResult:
    """What the reading of a slice asked for, and what it learned. Travels.

    request: the fingerprint of what was asked for; None: nothing that can be conditional. validators: what is known of
    its response now; None: nothing, as it was no success. unchanged: the source had nothing new, so nothing was read.
    """

    request: str | None = None
    validators: Validators | None = None
    unchanged: bool = False


@contextmanager
def conditional_reads(snapshot: HttpSnapshot) -> Iterator[ConditionalResult]:
    """Have the stream that is read in this block ask with what `snapshot` knows. What it gives is filled.

    The stream sends by an AskingTransport: a `conditional` one, or that of a manifest.

    For the reading of one slice, which may make one request that can be conditional, as often as it must be tried.
    """
    own = _Asking(snapshot.probe())
    asking: Asker = own
    with setting(asker, asking):
        yield own.result


@dataclass
class _Asking:
    probe: HttpProbe
    result: ConditionalResult = field(default_factory=ConditionalResult)

    def send(self, transport: Transport, request: Request) -> Response:
        """Raises FatalError: it is not the slice's first request. Else raises what ConditionalTransport does."""
        if not _conditional(request):
            return transport.send(request)
        mark, result = fingerprint(request), self.result
        if result.request not in (None, mark):
            raise FatalError(
                f"{request} is the second request of a slice, and a source is followed where one request brings all: "
                "that one response has not changed says nothing about another; read it without `follow_source`"
            )
        result.request, result.unchanged = mark, False
        try:
            return ConditionalTransport(transport, self.probe).send(request)
        except NotModified:
            result.unchanged = True
            raise
        finally:
            # A skipped request taught nothing new, and what was known of it stays.
            result.validators = self.probe.learned.get(mark) or (self.probe.known(mark) if result.unchanged else None)


class ConditionalStream(HttpStream):
    """An HttpStream whose slices are one request each, and which may be followed: what has not changed is not read.

    Without `follow` it is an HttpStream like any other, at no cost.
    """

    _followed = False

    def follow(self, probe: HttpProbe, *, passing: Collection[str] = PASSING) -> None:
        """Ask with the validators of `probe` from now on; to be called before the first read.

        passing: see `ConditionalTransport`. Raises FatalError: the stream was read before, or is followed already.
        """
        if self._retriever is not None or self._followed:
            raise FatalError("a stream is followed once, before it is first read; make another one", stream=self.name)
        self.transport, self._followed = ConditionalTransport(self.transport, probe, passing=passing), True

    def read_page(self, slice: Slice, token: Mapping[str, JsonValue] | None) -> Page:
        """The one page of a slice: empty where the source has not changed.

        Raises FatalError: there is a next page. A validator speaks for one request, not for those that follow it.
        """
        try:
            page = super().read_page(slice, token)
        except NotModified as same:
            logger.info("%s: nothing new, %s", self.name, same)
            return Page((), None)
        if page.next is not None and self._followed:
            raise FatalError(
                "a followed stream has one page for a slice, and this one has a next: that the first page has not "
                "changed says nothing about the others; read it without `follow`, or by a cursor",
                stream=self.name,
            )
        return page


def _conditional(request: Request) -> bool:
    """Whether a condition may be added to a request: a GET that has none of its own."""
    return request.method == "GET" and not request.is_conditional


def fingerprint(request: Request, passing: Collection[str] = PASSING) -> str:
    """What tells a request from others, and shows no secret: `sha256:` and hexadecimal digits.

    Method, URL, headers and body count. Secrets are left out, not hashed, so that a new token changes nothing; so are
    the user in the URL and the headers in `passing`.
    """
    parts = urlsplit(request.full_url)
    pairs = [pair for pair in parts.query.split("&") if not request.hides(unquote_plus(pair.partition("=")[0]))]
    url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="&".join(pairs)))
    headers = sorted(
        (name.lower(), value)
        for name, value in request.headers.items()
        if name.lower() not in passing and not request.hides(name)
    )
    body = None if request.body is None else request.body.decode("latin-1")
    text = request.hide(canonical([request.method, url, headers, body]))
    return f"sha256:{sha256(text.encode()).hexdigest()}"
