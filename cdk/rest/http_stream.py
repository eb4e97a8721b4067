"""HttpStream: a stream that reads an HTTP API page by page."""

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Self

from cdk.base.errors import ConfigError, DecodeError, TransientError
from cdk.base.times.clock import Sleep, sleep
from cdk.base.values import JsonValue, Record, copied, to_json
from cdk.rest.auth.oauth2 import OAuth2
from cdk.rest.auth.token_owner import TokenBearer, collecting_bearers, issue_all, register_bearer
from cdk.rest.auth.tokens import IssuedToken
from cdk.rest.cached_transport import CachedTransport
from cdk.rest.client import HttpClient
from cdk.rest.errors.error_handler import ErrorHandler, ignores
from cdk.rest.errors.failed_body import (
    NO_RECORDS,
    ErrorInstead,
    OtherFormat,
    is_error_record,
    reports_failure,
    reports_outage,
)
from cdk.rest.errors.http_error_handler import HttpErrorHandler
from cdk.rest.errors.status_errors import exchange_text
from cdk.rest.expected_values import HTTP_ATTRIBUTES, check_url, returned
from cdk.rest.http.authenticator import Authenticator
from cdk.rest.http.json_path import absence, as_path, path, path_exists, records_at
from cdk.rest.http.messages import Request, Response
from cdk.rest.http.origin import CredentialScope, named_origins, origin
from cdk.rest.http.transport import HttpTransport, SliceSenderTransport, Transport
from cdk.rest.limits.budget import Budget
from cdk.rest.pagination.paginator import Paginator, SinglePage
from cdk.rest.records.decoder import Decoder, JsonDocument
from cdk.rest.retriever import FOUND_RECORDS, PageRetriever
from cdk.state.slice import Slice
from cdk.streams.page import Page, Token
from cdk.streams.paged import PagedStream
from cdk.streams.state_mixin import initial_state

_building = threading.Lock()


class HttpStream(PagedStream):
    """A stream of the records behind a URL. Implement `path`, and declare where the pages and records are.

    http_method: GET, or POST for APIs that search with a body.
    paginator: finds the next page and puts it into the request.
    records_path: the path of the list of records in a body: `("data", "items")`; `"*"` matches every element. A null
        there is an empty list, as Go writes one; a body without the path is an error.
    decoder: decodes the bodies, such as `Jsonl()`, `CsvRows(delimiter=";")` or `GzipFile(CsvRows())`; JSON by default.
    error_handler: decides what responses mean and how often a request is retried.
    budget: how often the API may be called; streams with the same budget share it.
    trusted_urls: further origins to which credentials may be sent, such as `["https://files.example.com"]`, besides
        those of `url_base` and of the URLs and hosts in the config.
    use_cache: whether to cache responses until the run ends, for other streams that send the same requests. For parents
        of several children.
    transport: sends the requests; shared by all streams by default. Replace it before the first read, for example by a
        `CachedTransport` with a folder, which sends no request twice while a connector is being developed.
    sleep: waits between attempts.
    """

    http_method: str = "GET"
    paginator: Paginator = SinglePage()
    records_path: Sequence[str] = ()
    decoder: Decoder = JsonDocument()
    error_handler: ErrorHandler = HttpErrorHandler()
    budget: Budget | None = None
    trusted_urls: Sequence[str] = ()
    use_cache: bool = False
    transport: Transport = HttpTransport()
    sleep: Sleep = staticmethod(sleep)

    _expected_values = HTTP_ATTRIBUTES
    _client: HttpClient | None = None
    _retriever: PageRetriever | None = None
    _bearers: Sequence[TokenBearer] = ()
    _scopes: Mapping[str, CredentialScope] | None = None

    @property
    def url_base(self) -> str:
        """The URL to which `path` is appended: set it on the class, or override it to compute it from `self.config`."""
        return ""

    @abstractmethod
    def path(self, slice: Slice) -> str:
        """Return the path of a slice, relative to `url_base`, or a full URL. Quote values that may contain `/?#`."""

    def params(self, slice: Slice) -> Mapping[str, JsonValue]:
        """Return the query parameters of every page. None is omitted, a list repeats its name, True is `true`."""
        return {}

    def headers(self, slice: Slice) -> Mapping[str, str]:
        """Return the headers of every page, in addition to those of the authenticator."""
        return {}

    def body_json(self, slice: Slice) -> JsonValue:
        """Return the JSON body of every page, or None for requests without a body."""
        return None

    def authenticator(self) -> Authenticator | None:
        """Return the authenticator that adds credentials to requests, or None. Called once per process.

        An OAuth2 that it returns or creates obtains its tokens where the slices are planned, once for all tasks.
        """
        return None

    def parse(self, response: Response, slice: Slice) -> Sequence[Record]:
        """Return the records of a page: by default the list at `records_path`, unchanged. Untyped code may yield them.

        The paginator sees all records that this method finds, even if an override drops some of them.
        """
        where = as_path(self.records_path, "records_path")
        if self._may_stay_undecoded and (lines := response.undecoded_records(where, slice.record_type)):
            return lines
        try:
            body = self.decoder.decode(response)
        except (OtherFormat, ErrorInstead):
            if ignores(self.error_handler, response):
                return []
            raise
        value = path(*where)(body)
        if value is None and not path_exists(body, where):
            # An error page with status 200, or a typo in the path: treating it as "no records" would empty a table.
            why = absence(body, where)
            raise DecodeError(
                f"{response.request}: found nothing at {' > '.join(where) or 'the top of the body'}"
                f"{why and f', because there is {why}'}; expected a list of objects; check `records_path`, or override "
                "`parse` if the source omits empty lists"
            )
        if self._is_failure(body, value, where) and not ignores(self.error_handler, response):
            at = " > ".join(where) or "the top of the body"
            raise TransientError(
                f"{exchange_text(response)}; found an error, expected records at {at}. Try again later; {NO_RECORDS}"
            )
        records = records_at(value, where, response.request)
        if (lists := FOUND_RECORDS.get()) is not None:
            lists.append(records)
        return records

    def _is_failure(self, body: JsonValue, value: JsonValue, where: Sequence[str]) -> bool:
        """Whether a body reports an error of the API. value: the value at the path of the records."""
        if value is None or value == []:
            return reports_outage(body, where) if value == [] else reports_failure(body)
        if type(value) is not list:
            return is_error_record([value], self.key_paths)
        # An error in a list is a record. But a decoder that streams turns any body into a list.
        return self.decoder.streams and is_error_record(value, self.key_paths)

    @property
    def _may_stay_undecoded(self) -> bool:
        """Whether records are passed on as text of the body. An overriding `parse` needs a list that it may change."""
        return type(self).parse is HttpStream.parse and type(self.decoder) is JsonDocument

    def request(self, slice: Slice) -> Request:
        """Return the request for a slice, without its page token and credentials."""
        # Headers and parameters are copied: a request may be sent again, after its author has reused the dict.
        headers = dict(returned(self, self.headers, self.headers(slice)))
        content, body = self.body_json(slice), None
        if content is not None:
            body = to_json(content)
            headers = {"Content-Type": "application/json", **headers}
        url = _join(self.url_base, returned(self, self.path, self.path(slice)))
        scope = self._scope(url, slice)
        params = copied(returned(self, self.params, self.params(slice)))
        return Request(self.http_method, url, params, headers, body, scope=scope)

    def _request(self, slice: Slice) -> Request:
        """Return the request for any page of a slice, always built with the state at the start of the slice."""
        if not self.advanced_by_hand:
            return self.request(slice)
        with initial_state():
            return self.request(slice)

    def _scope(self, url: str, slice: Slice) -> CredentialScope:
        """Return where credentials may go: not to a host that only a partition, such as a parent's record, names."""
        base = self.url_base
        if not base:
            named = named_origins([*slice.partition.values(), *slice.extra.values()])
            target = origin(url)
            base = "" if any(each.host == target.host for each in named) else url
        known = self._scopes or {}
        key = str(origin(base))
        if key not in known:
            check_url(self, self.url_base, url)
            known = self._scopes = {**known, key: CredentialScope.of([base, *self.trusted_urls], dict(self.config))}
        return known[key]

    def read_page(self, slice: Slice, token: Mapping[str, JsonValue] | None) -> Page:
        """Read the page of `token` with one request. Raises what PageRetriever.page raises."""
        retriever = self._retriever or self._build()
        return retriever.page(slice, token)

    def check_token(self, token: Token) -> None:
        if "url" not in token:
            self.paginator.apply(Request(self.http_method, self.url_base), token)

    def conditional(self) -> Self:
        if self.http_method != "GET":
            why = f"the stream sends {self.http_method} requests, and only a GET can be conditional; do not follow it"
            raise ConfigError(why)
        stream = copy(self)
        stream.transport = SliceSenderTransport(stream.transport)
        return stream

    def access_tokens(self, seconds: float) -> Mapping[str, IssuedToken]:
        self._build()
        return issue_all(
            self._bearers, HttpClient(self.transport, error_handler=self.error_handler, sleep=self.sleep), seconds
        )

    def beside(self) -> Self:
        self._build()
        stream = super().beside()
        # The retriever is bound to the original stream, which builds its requests and parses its records.
        stream._retriever = None  # noqa: SLF001 - its own
        return stream

    def _build(self) -> PageRetriever:
        # All threads share one client, so that its authenticator renews a token once for all of them.
        with _building:
            if self._client is None:
                with collecting_bearers() as self._bearers:
                    authenticator = returned(self, self.authenticator, self.authenticator())
                    if isinstance(authenticator, OAuth2):
                        register_bearer(authenticator)
                self._client = HttpClient(
                    CachedTransport(self.transport) if self.use_cache else self.transport,
                    authenticator=authenticator,
                    error_handler=self.error_handler,
                    budget=self.budget,
                    sleep=self.sleep,
                )
            if self._retriever is None:
                where = self.records_path if type(self).parse is HttpStream.parse else None
                self._retriever = PageRetriever(self._client, self.paginator, self._request, self.parse, where)
            return self._retriever

    def __getstate__(self) -> dict[str, JsonValue]:
        """Return the state to pickle for another process: everything except client, retriever, scopes and tokens."""
        return {
            name: value
            for name, value in self.__dict__.items()
            if name not in {"_client", "_retriever", "_scopes", "_bearers"}
        }


def _join(base: str, path: str) -> str:
    if path.startswith(("https://", "http://")):
        return path
    return f"{base.rstrip('/')}/{path.lstrip('/')}" if path else base
