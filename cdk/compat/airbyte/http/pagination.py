"""The pagination strategies that custom ones extend."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any

import requests

from cdk.base.values import JsonValue
from cdk.compat.airbyte.interpolation import InterpolatedBoolean, InterpolatedString, Text
from cdk.compat.airbyte.plain_types import Config, Parameters
from cdk.compat.airbyte.records import Decoder, JsonDecoder
from cdk.declarative.components.requests.pagination import header_map
from cdk.rest.pagination.page_number import next_number


class PaginationStrategy(ABC):
    """Finds the token of the next page."""

    @property
    def initial_token(self) -> JsonValue:
        """The token of the first page; None if its request has none."""
        return None

    @abstractmethod
    def next_page_token(
        self,
        response: requests.Response,
        last_page_size: int,
        last_record: Mapping[str, JsonValue] | None,
        last_page_token_value: JsonValue = None,
    ) -> JsonValue:
        """Return the token of the page after the one in `response`; None if that was the last."""

    def get_page_size(self) -> int | None:
        """The number of records of a full page."""
        return None


@dataclass
class _Counting(PaginationStrategy):
    config: Config
    page_size: Text
    parameters: InitVar[Parameters]
    _page_size: int | None = field(init=False, default=None)
    """None in a subclass that does not call `super().__post_init__`. Airbyte reads the size only to send it; the kit
    reads it when it makes the strategy."""

    def __post_init__(self, parameters: Parameters) -> None:
        self._page_size = _number(self.page_size, self.config, parameters)

    def get_page_size(self) -> int | None:
        return self._page_size

    def next_page_token(
        self,
        response: requests.Response,  # noqa: ARG002
        last_page_size: int,
        last_record: Mapping[str, JsonValue] | None,  # noqa: ARG002
        last_page_token_value: JsonValue = None,
    ) -> JsonValue:
        number, step = self._position(last_page_token_value, last_page_size)
        return next_number(number, step, last_page_size, self._page_size)

    def _position(self, token: JsonValue, size: int) -> tuple[int, int]:
        """Return the number of the page of `token`, with `size` records, and how far the next page is from it."""
        raise NotImplementedError


@dataclass
class PageIncrement(_Counting):
    """Requests pages by number, from `start_from_page`."""

    start_from_page: int = 0
    inject_on_first_request: bool = False

    @property
    def initial_token(self) -> JsonValue:
        return self.start_from_page if self.inject_on_first_request else None

    def _position(self, token: JsonValue, size: int) -> tuple[int, int]:  # noqa: ARG002
        return _counted(token, self.start_from_page), 1


@dataclass
class OffsetIncrement(_Counting):
    """Requests pages by the offset of their first record."""

    inject_on_first_request: bool = False

    @property
    def initial_token(self) -> JsonValue:
        return 0 if self.inject_on_first_request else None

    def _position(self, token: JsonValue, size: int) -> tuple[int, int]:
        return _counted(token or 0, 0), size


@dataclass
class CursorPaginationStrategy(PaginationStrategy):
    """Requests the next page with a cursor from the response."""

    cursor_value: Text
    config: Config
    parameters: InitVar[Parameters]
    page_size: int | None = None
    stop_condition: str | InterpolatedBoolean | None = None
    decoder: Decoder = field(default_factory=lambda: JsonDecoder(parameters={}))

    def __post_init__(self, parameters: Parameters) -> None:
        self._cursor_value = InterpolatedString.create(self.cursor_value, parameters=parameters)
        stop = self.stop_condition
        self._stop_condition = InterpolatedBoolean(stop, parameters=parameters) if isinstance(stop, str) else stop

    def next_page_token(
        self,
        response: requests.Response,
        last_page_size: int,
        last_record: Mapping[str, JsonValue] | None,
        last_page_token_value: JsonValue = None,  # noqa: ARG002
    ) -> JsonValue:
        names: dict[str, Any] = {
            "response": next(iter(self.decoder.decode(response))),
            "headers": header_map(response.headers),
            "last_record": last_record,
            "last_page_size": last_page_size,
        }
        if self._stop_condition is not None and self._stop_condition.eval(self.config, **names):
            return None
        return self._cursor_value.eval(self.config, **names) or None

    def get_page_size(self) -> int | None:
        return self.page_size


def _counted(token: JsonValue, first: int) -> int:
    """Return a page token as a number; `first` without a token. Raises TypeError: it is not an integer."""
    if token is not None and not isinstance(token, int):
        raise TypeError(f"the page token is {token!r}, expected a number")
    return first if token is None else token


def _number(value: Text, config: Config, parameters: Parameters) -> int | None:
    number = InterpolatedString.create(value, parameters=parameters).eval(config)
    if number is None or number == "":
        return None
    if type(number) is not int:
        raise TypeError(f"page_size is {number!r}, expected an integer")
    return number
