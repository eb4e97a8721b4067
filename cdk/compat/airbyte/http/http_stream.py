"""HttpStream: a stream that custom code writes in Python, and reads beside the streams of the manifest."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import urljoin

import requests

from cdk.base.errors import PaginationLoop
from cdk.base.values import JsonValue, to_json
from cdk.compat.airbyte.http.call_rate import APIBudget
from cdk.compat.airbyte.http.error_handlers import BackoffStrategy, ErrorHandler
from cdk.compat.airbyte.http.http_client import HttpClient
from cdk.compat.airbyte.plain_types import Token
from cdk.compat.airbyte.streams import Stream
from cdk.state.position import Trail


class HttpStream(Stream):
    """Requests page after page of one URL. Subclasses define the requests, and which parts of a response are records.

    Its methods get what Airbyte passes to them, by name. Reading it saves no state.
    """

    url_base: str = ""
    http_method: str = "GET"
    primary_key: str | Sequence[str] | None = None

    def __init__(self, authenticator: object = None, api_budget: APIBudget | None = None) -> None:
        self.name = self.name or type(self).__name__
        self.logger = logging.getLogger(f"airbyte.streams.{self.name}")
        self._http_client = HttpClient(
            self.name,
            self.logger,
            self.get_error_handler(),
            api_budget,
            authenticator=authenticator,
            backoff_strategy=self.get_backoff_strategy(),
        )

    def path(self, **_: object) -> str:
        """Return the part of the URL after `url_base`."""
        raise NotImplementedError

    def parse_response(self, response: requests.Response, **_: object) -> Iterable[Mapping[str, JsonValue]]:
        """Return the records of a response."""
        raise NotImplementedError

    def next_page_token(self, response: requests.Response) -> Token | None:
        """Return what the next page is requested with; None after the last one."""
        raise NotImplementedError

    def request_params(self, **_: object) -> Mapping[str, JsonValue]:
        return {}

    def request_headers(self, **_: object) -> Mapping[str, JsonValue]:
        return {}

    def request_body_json(self, **_: object) -> Mapping[str, JsonValue] | None:
        return None

    def request_body_data(self, **_: object) -> Mapping[str, JsonValue] | str | None:
        return None

    def get_error_handler(self) -> ErrorHandler | None:
        """Return what judges responses; None for the default."""
        return None

    def get_backoff_strategy(self) -> BackoffStrategy | list[BackoffStrategy] | None:
        """Return what decides how long to wait before a retry; None for the default."""
        return None

    def read_records(  # type: ignore[override] # custom code passes some arguments by name
        self,
        sync_mode: object = None,  # noqa: ARG002 - Airbyte's signature
        cursor_field: object = None,  # noqa: ARG002 - Airbyte's signature
        stream_slice: Mapping[str, JsonValue] | None = None,
        stream_state: Mapping[str, JsonValue] | None = None,
    ) -> Iterator[Mapping[str, JsonValue]]:
        """Yield the records of a slice. Raises CdkErrors: a request failed for good, or a page token repeats."""
        of_slice = {"stream_slice": stream_slice, "stream_state": stream_state}
        token: Token | None = None
        trail = Trail.begin(None)
        while True:
            names = {**of_slice, "next_page_token": token}
            _, response = self._http_client.send_request(
                self.http_method,
                urljoin(self.url_base, self.path(**names)),
                headers=self.request_headers(**names),
                params=self.request_params(**names),
                json=self.request_body_json(**names),
                data=self.request_body_data(**names),
                dedupe_query_params=True,
            )
            yield from self.parse_response(response, **of_slice)
            token = self.next_page_token(response)
            if not token:
                return
            # Not part of a state, so it may hold what JSON cannot.
            text = to_json(token, str, sort=True).decode()
            trail = trail.after(text)
            if trail.closed_at(text):
                words = f"{self.name}: next_page_token returned {token!r} again, so the read would never end"
                raise PaginationLoop(words)
