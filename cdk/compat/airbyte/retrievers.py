"""SimpleRetriever: reads pages in a loop whose steps subclasses override."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import InitVar, dataclass
from functools import partial
from inspect import signature
from typing import Any, Protocol, TypeAlias

import requests

from cdk.base.run import setting
from cdk.base.values import JsonObject, JsonSchema, JsonValue
from cdk.compat.airbyte.http.requesters import Requester, RequestOptionsProvider
from cdk.compat.airbyte.http.response import ResponseFacade
from cdk.compat.airbyte.partition_routers import SinglePartitionRouter, StreamSlicer
from cdk.compat.airbyte.plain_types import Config, Parameters, Record, StreamData, StreamSlice, Token
from cdk.compat.airbyte.records import HttpSelector
from cdk.state.slice import Slice
from cdk.streams.page import Page, records_in
from cdk.streams.paged import read_pages

FULL_REFRESH_SYNC_COMPLETE_KEY = "__ab_full_refresh_sync_complete"

_STATE, _SLICE = "stream_state", "stream_slice"
_TOKEN = "next_page_token"  # noqa: S105 - the name under which requests know it
_ASKING = (_SLICE, _TOKEN)

_OF_SLICE: ContextVar["tuple[SimpleRetriever, Paginator] | None"] = ContextVar("paginator of a slice", default=None)
"""The retriever that looks for its next page, and its paginator in this slice."""

OptionsMethod: TypeAlias = Callable[..., JsonObject | str | None]
"""Returns one part of a request."""


class Paginator(Protocol):
    """The methods of a paginator that a retriever calls."""

    def get_initial_token(self) -> JsonValue: ...

    def next_page_token(self, *, response: requests.Response, **page: Any) -> Token | None: ...  # noqa: ANN401

    def path(self, **names: object) -> str | None: ...


class NoPagination(RequestOptionsProvider):
    """The paginator of a retriever without one: it requests a single page."""

    def get_initial_token(self) -> JsonValue:
        return None

    def next_page_token(self, **_: object) -> Token | None:
        return None

    def path(self, **_: object) -> str | None:
        return None


class Retriever:
    """Reads the records of a slice."""

    def read_records(self, records_schema: JsonSchema, stream_slice: StreamSlice | None = None) -> Iterable[StreamData]:
        raise NotImplementedError


@dataclass
class SimpleRetriever(Retriever):
    """Reads a slice page by page."""

    requester: Requester
    record_selector: HttpSelector
    config: Config
    parameters: InitVar[Parameters]
    name: str = ""
    primary_key: JsonValue = None
    paginator: Paginator | None = None
    stream_slicer: StreamSlicer | None = None
    request_option_provider: object = None
    cursor: object = None
    ignore_stream_slicer_parameters_on_paginated_requests: bool = False
    decoder: object = None

    def __post_init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self.stream_slicer = self.stream_slicer or SinglePartitionRouter(parameters={})
        self._last_response: requests.Response | None = None

    def stream_slices(self) -> Iterable[StreamSlice]:
        return () if self.stream_slicer is None else self.stream_slicer.stream_slices()

    @property
    def _paginator(self) -> Paginator:
        retriever, paginator = _OF_SLICE.get() or (None, None)
        if retriever is self and paginator is not None:
            return paginator
        return NoPagination() if self.paginator is None else self.paginator

    # Existing subclasses pass arguments as their version of airbyte_cdk did: by name, or by position with or without
    # a state before the slice. So the steps that subclasses override accept all of these.

    # --- a request ---------------------------------------------------------------------------------------------

    def _get_mapping(self, method: OptionsMethod, **names: object) -> tuple[JsonObject | str, set[str]]:
        """The part that a method returns, and the names of its fields."""
        options = _by_name(method, **names) or {}
        return options, set() if isinstance(options, str) else set(options)

    def _get_request_options(self, *args: object, **kwargs: object) -> JsonObject | str:
        """Merge the fields that the two methods return; if one returns a string, return the last string instead."""
        names = _arguments((*_ASKING, "paginator_method", "stream_slicer_method"), args, kwargs)
        methods = [names["paginator_method"], names["stream_slicer_method"]]
        if names[_TOKEN] and self.ignore_stream_slicer_parameters_on_paginated_requests:
            methods.pop()
        fields: JsonObject = {}
        text = ""
        for method in methods:
            options, _ = self._get_mapping(method, stream_slice=names[_SLICE], next_page_token=names[_TOKEN])
            if isinstance(options, str):
                text = options
            else:
                fields.update(options)
        return text or fields

    def _options(self, method: str, args: Sequence[object], kwargs: Mapping[str, object]) -> JsonObject | str:
        """One part of the request: the fields that `method` of the paginator and that of the stream return together."""
        names = _arguments(_ASKING, args, kwargs)
        options: JsonObject | str = _by_position(
            self._get_request_options,
            stream_slice=names[_SLICE],
            next_page_token=names[_TOKEN],
            paginator_method=getattr(self._paginator, method),
            stream_slicer_method=getattr(self.request_option_provider or RequestOptionsProvider(), method),
        )
        return options

    def _option_fields(self, method: str, args: Sequence[object], kwargs: Mapping[str, object]) -> JsonObject:
        options = self._options(method, args, kwargs)
        if isinstance(options, str):
            raise TypeError(f"{method} returned the string {options!r}, expected fields")
        return options

    def _request_headers(self, *args: object, **kwargs: object) -> Mapping[str, str]:
        return {name: str(value) for name, value in self._option_fields("get_request_headers", args, kwargs).items()}

    def _request_params(self, *args: object, **kwargs: object) -> JsonObject:
        return self._option_fields("get_request_params", args, kwargs)

    def _request_body_data(self, *args: object, **kwargs: object) -> JsonObject | str:
        return self._options("get_request_body_data", args, kwargs)

    def _request_body_json(self, *args: object, **kwargs: object) -> JsonObject | None:
        return self._option_fields("get_request_body_json", args, kwargs) or None

    def _paginator_path(self, next_page_token: object = None, *args: object, **kwargs: object) -> str | None:
        slice = _arguments((_SLICE,), args, kwargs)[_SLICE]
        path: str | None = _by_name(self._paginator.path, next_page_token=next_page_token, stream_slice=slice)
        return path

    def _fetch_next_page(self, *args: object, **kwargs: object) -> requests.Response | None:
        arguments = _arguments(_ASKING, args, kwargs)
        names = {name: arguments[name] for name in _ASKING}
        return self.requester.send_request(
            path=_by_name(self._paginator_path, **names),
            request_headers=_by_name(self._request_headers, **names),
            request_params=_by_name(self._request_params, **names),
            request_body_data=_by_name(self._request_body_data, **names),
            request_body_json=_by_name(self._request_body_json, **names),
            stream_state={},
            **names,
        )

    # --- a response --------------------------------------------------------------------------------------------

    def _parse_response(self, response: requests.Response | None, *args: object, **kwargs: object) -> Iterable[Record]:
        names = _arguments(("records_schema", *_ASKING), args, kwargs)
        self._last_response = response
        if response is None or not response.ok:
            return
        slice = names[_SLICE]
        for record in self.record_selector.select_records(
            response=response,
            stream_state={},
            records_schema=names["records_schema"],
            stream_slice=slice,
            next_page_token=names[_TOKEN],
        ):
            yield record if isinstance(record, Record) else Record(record, self.name, slice)

    def _parse_records(
        self, response: requests.Response | None, *args: object, **kwargs: object
    ) -> Iterable[StreamData]:
        names = _arguments(("records_schema", _SLICE), args, kwargs)
        yield from _by_name(
            self._parse_response, response, records_schema=names["records_schema"], stream_slice=names[_SLICE]
        )

    def _next_page_token(
        self,
        response: requests.Response,
        last_page_size: int = 0,
        last_record: Record | None = None,
        last_page_token_value: JsonValue = None,
    ) -> Token | None:
        return self._paginator.next_page_token(
            response=response,
            last_page_size=last_page_size,
            last_record=last_record,
            last_page_token_value=last_page_token_value,
        )

    # --- the loop ----------------------------------------------------------------------------------------------

    def _get_initial_next_page_token(self) -> Token | None:
        """The token of the first page; None if its request has none."""
        first = self._paginator.get_initial_token()
        return None if first is None else {_TOKEN: first}

    def _read_pages(
        self,
        records_generator_fn: Callable[[requests.Response | None], Iterable[StreamData]],
        *args: object,
        **kwargs: object,
    ) -> Iterable[StreamData]:
        slice = _arguments((_SLICE,), args, kwargs)[_SLICE]
        # Only those of the manifest have it; custom code may pass any object that has the other methods.
        of_slice = getattr(self._paginator, "of_slice", lambda: self._paginator)
        first, paginator = self._get_initial_next_page_token(), of_slice()

        def read_page(_: Slice, token: Token | None) -> Iterator[Page | Sequence[StreamData]]:
            if token is None:
                token = first
            response = _by_position(self._fetch_next_page, stream_slice=slice, next_page_token=token)
            size, last = 0, None
            for record in records_generator_fn(response):
                size, last = size + 1, record
                yield (record,)
            if response is None or not response.ok:
                return
            # Pagination strategies count the records in the response, including those that a filter drops.
            raw = response.extracted if isinstance(response, ResponseFacade) else None
            with setting(_OF_SLICE, (self, paginator)):
                following = self._next_page_token(
                    response,
                    last_page_size=size if raw is None else raw,
                    last_record=last if last is None or isinstance(last, Record) else Record(last),
                    last_page_token_value=None if token is None else token.get(_TOKEN),
                )
            yield Page((), following or None)

        yield from records_in(read_pages(Slice(), read_page))

    def read_records(self, records_schema: JsonSchema, stream_slice: StreamSlice | None = None) -> Iterable[StreamData]:
        """Yield the records of a slice."""
        slice = stream_slice or StreamSlice(partition={}, cursor_slice={})
        parse = partial(_by_name, self._parse_records, records_schema=records_schema, stream_slice=slice)
        yield from _by_position(self._read_pages, parse, stream_slice=slice)


def _arguments(order: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Any]:
    """Return arguments by name.

    order: the names of positional arguments in current versions of airbyte_cdk; in older ones, a state comes first.
    """
    at = order.index(_SLICE)
    now, before = (len(args) > i and isinstance(args[i], StreamSlice) for i in (at, at + 1))
    older = not now and (before or len(args) > len(order))
    names = (_STATE, *order) if older else order
    return {**dict.fromkeys(order), **dict(zip(names, args, strict=False)), **kwargs}


def _by_name(method: Callable[..., Any], *first: object, **names: object) -> Any:  # noqa: ANN401 - the result of the method
    """Call a method with those of `names` that it accepts, and an empty state if it takes one, as older ones do."""
    parameters = signature(method).parameters
    every = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    taken = {name: value for name, value in names.items() if every or name in parameters}
    return method(*first, **taken, **({_STATE: {}} if _STATE in parameters else {}))


def _by_position(method: Callable[..., Any], *first: object, **names: object) -> Any:  # noqa: ANN401 - as above
    """As `_by_name`, but pass `names` by position to a method without a state, which may name its parameters freely."""
    if _STATE in signature(method).parameters:
        return _by_name(method, *first, **names)
    return method(*first, *names.values())
