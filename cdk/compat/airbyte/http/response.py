"""Requests and responses as the `requests` library has them: what custom code is written against."""

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import orjson
import requests
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers

from cdk.base.errors import CdkError, Timeout
from cdk.base.values import Json, from_json
from cdk.rest import Headers, Request, Response


class SeenResponse(requests.Response):
    """A response of ours as a `requests.Response`.

    ours: the response itself. extracted: the records that were in it, once a selector of the manifest looked.
    """

    def __init__(self, ours: Response) -> None:
        super().__init__()
        self.ours = ours
        self.status_code, self.url = ours.status, ours.url
        self.headers = CaseInsensitiveDict(ours.headers)
        self.encoding = get_encoding_from_headers(self.headers)
        self._content, self._content_consumed = ours.body, True
        self.extracted: int | None = None
        self._asked: requests.PreparedRequest | None = None

    @property
    def request(self) -> requests.PreparedRequest:
        if self._asked is None:
            self._asked = prepared(self.ours.request)
        return self._asked

    @request.setter
    def request(self, value: requests.PreparedRequest | None) -> None:
        self._asked = value

    def json(self, **kwargs: Json) -> Json:
        """The body as JSON, new objects each time. Raises requests.JSONDecodeError: it is none."""
        try:
            return from_json(self.ours.body)
        except orjson.JSONDecodeError:
            return super().json(**kwargs)


class SeenError(requests.ConnectionError):
    """An error of the transport as an exception of `requests`. `ours`: the error itself."""

    def __init__(self, ours: CdkError) -> None:
        super().__init__(ours.message)
        self.ours = ours


class SeenTimeout(SeenError, requests.Timeout):
    """A source that did not answer in time."""


def seen(outcome: Response | CdkError) -> requests.Response | SeenError:
    """What became of a request, as custom code sees it."""
    if isinstance(outcome, Response):
        return SeenResponse(outcome)
    return SeenTimeout(outcome) if isinstance(outcome, Timeout) else SeenError(outcome)


def ours(outcome: Json) -> Response | CdkError:
    """What custom code passes on, as we know it."""
    match outcome:
        case SeenResponse() | SeenError():
            return outcome.ours
        case CdkError():
            return outcome
        case requests.Response():
            request_: requests.PreparedRequest | None = getattr(outcome, "request", None)
            request = Request("GET", outcome.url or "") if request_ is None else from_prepared(request_)
            return Response(outcome.status_code, Headers(outcome.headers), outcome.content or b"", outcome.url, request)
        case _:
            return Timeout(f"the request failed: {outcome}")


def prepared(request: Request) -> requests.PreparedRequest:
    """A request as the library sends it."""
    library_request = requests.PreparedRequest()
    library_request.prepare(
        method=request.method, url=request.full_url, headers=dict(request.headers), data=request.body
    )
    return library_request


def from_prepared(asked: requests.PreparedRequest, like: Request | None = None) -> Request:
    """A request of the library as ours. like: what it was made of; what was added to that is secret."""
    headers = {str(k): _text(v) for k, v in (asked.headers or {}).items() if k.lower() != "content-length"}
    body = asked.body.encode() if isinstance(asked.body, str) else asked.body
    body = body if isinstance(body, bytes) else None
    if like is None:
        return Request(asked.method or "GET", asked.url or "", headers=headers, body=body)
    before = prepared(like)
    added = {k: v for k, v in headers.items() if _text(before.headers.get(k, "")) != v}
    request = like.with_headers(added, secret=True)
    if asked.url != before.url:
        known = dict(parse_qsl(urlsplit(before.url or "").query))
        names = {name.lower() for name, value in parse_qsl(urlsplit(asked.url or "").query) if known.get(name) != value}
        request = replace(request, url=asked.url or "", params={}, secret=request.secret | names)
    return request if body == like.body else replace(request, body=body)


def texts(fields: Mapping[str, Json] | None) -> dict[str, str]:
    """Header fields as strings, without those that are null."""
    return {name: _text(value) for name, value in (fields or {}).items() if value is not None}


def _text(value: Json) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
