"""Conversions between the kit's requests and responses and those of `requests`, which custom code expects."""

from collections.abc import Mapping
from typing import Any

import orjson
import requests
from msgspec.structs import replace
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers

from cdk.base.errors import CdkError, Timeout
from cdk.base.records.exact_json import exact_json
from cdk.rest import Headers, Request, Response
from cdk.rest.http.messages import query_of


class ResponseFacade(requests.Response):
    """A response in the form of a `requests.Response`.

    native: the kit's response. extracted: the number of records in it, set by a record selector of the manifest.
    """

    def __init__(self, native: Response) -> None:
        super().__init__()
        self.native, self.status_code, self.url = native, native.status, native.url
        self.headers = CaseInsensitiveDict(native.headers)
        self.encoding = get_encoding_from_headers(self.headers)
        self._content, self._content_consumed = native.body, True
        self.extracted: int | None = None
        self._asked: requests.PreparedRequest | None = None

    @property
    def request(self) -> requests.PreparedRequest:
        if self._asked is None:
            self._asked = prepared(self.native.request)
        return self._asked

    @request.setter
    def request(self, value: requests.PreparedRequest | None) -> None:
        self._asked = value

    def json(self, **kwargs: Any) -> Any:  # noqa: ANN401 - the signature of `requests`
        """Parse the body as JSON, into new objects for each call. Raises requests.JSONDecodeError: it is not JSON."""
        try:
            return exact_json(self.native.body)
        except orjson.JSONDecodeError:
            return super().json(**kwargs)


class ErrorFacade(requests.ConnectionError):
    """A transport error in the form of an exception of `requests`. native: the kit's error."""

    def __init__(self, native: CdkError) -> None:
        super().__init__(native.message)
        self.native = native


class TimeoutFacade(ErrorFacade, requests.Timeout):
    """A timeout in the form of an exception of `requests`."""


def outcome_facade(outcome: Response | CdkError) -> requests.Response | ErrorFacade:
    """Convert a response or an error to the form that custom code uses."""
    match outcome:
        case Response():
            return ResponseFacade(outcome)
        case Timeout():
            return TimeoutFacade(outcome)
        case _:
            return ErrorFacade(outcome)


def native_outcome(outcome: object) -> Response | CdkError:
    """Convert a response or an exception from custom code back to the kit's response or error."""
    match outcome:
        case ErrorFacade():
            return outcome.native
        case CdkError():
            return outcome
        case _:
            return native_response(outcome) or Timeout(f"the request failed: {outcome}")


def native_response(answer: object) -> Response | None:
    """Convert a `requests.Response` from custom code back to the kit's response; None for any other object."""
    match answer:
        case ResponseFacade():
            return answer.native
        case requests.Response():
            request_: requests.PreparedRequest | None = getattr(answer, "request", None)
            request = Request("GET", answer.url or "") if request_ is None else from_prepared(request_)
            return Response(answer.status_code, Headers(answer.headers), answer.content or b"", answer.url, request)
        case _:
            return None


def prepared(request: Request) -> requests.PreparedRequest:
    """Convert a request to one of `requests`."""
    library_request = requests.PreparedRequest()
    library_request.prepare(
        method=request.method, url=request.full_url, headers=dict(request.headers), data=request.body
    )
    return library_request


def from_prepared(sent: requests.PreparedRequest, like: Request | None = None) -> Request:
    """Convert a request of `requests` to the kit's. like: the original request; all that was added to it is secret."""
    headers = {str(k): _text(v) for k, v in (sent.headers or {}).items() if k.lower() != "content-length"}
    body = sent.body.encode() if isinstance(sent.body, str) else sent.body
    body = body if isinstance(body, bytes) else None
    if like is None:
        return Request(sent.method or "GET", sent.url or "", headers=headers, body=body)
    before = prepared(like)
    added = {k: v for k, v in headers.items() if _text(before.headers.get(k, "")) != v}
    request = like.with_headers(added, secret=True)
    if sent.url != before.url:
        known = dict(query_of(before.url or ""))
        names = {name.lower() for name, value in query_of(sent.url or "") if known.get(name) != value}
        request = replace(request, url=sent.url or "", params={}, secret=request.secret | names)
    return request if body == like.body else replace(request, body=body)


def texts(fields: Mapping[str, object] | None) -> dict[str, str]:
    """Convert the values of headers to strings, without null ones."""
    return {name: _text(value) for name, value in (fields or {}).items() if value is not None}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
