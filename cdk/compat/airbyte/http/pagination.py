"""Pagination strategies."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import InitVar, dataclass

import requests

from cdk.base.values import Json
from cdk.compat.airbyte.interpolation import InterpolatedBoolean, InterpolatedString
from cdk.compat.airbyte.plain_types import Config
from cdk.rest.pagination.page_number import next_number


class PaginationStrategy(ABC):
    """Finds the token of the next page."""

    @property
    def initial_token(self) -> Json:
        """The token of the first page; None when it is asked for without one."""
        return None

    @abstractmethod
    def next_page_token(
        self,
        response: requests.Response,
        last_page_size: int,
        last_record: Mapping[str, Json] | None,
        last_page_token_value: Json = None,
    ) -> Json:
        """The token of the page after the one that `response` holds; None when it was the last."""

    def get_page_size(self) -> int | None:
        """Records of a full page."""
        return None


@dataclass
class _Counting(PaginationStrategy):
    config: Config
    page_size: Json
    parameters: InitVar[Mapping[str, Json]]

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._page_size = _number(self.page_size, self.config, parameters)

    def get_page_size(self) -> int | None:
        return self._page_size


@dataclass
class PageIncrement(_Counting):
    """Pages with numbers, the first with that of `start_from_page`."""

    start_from_page: int = 0
    inject_on_first_request: bool = False

    @property
    def initial_token(self) -> Json:
        return self.start_from_page if self.inject_on_first_request else None

    def next_page_token(
        self,
        response: requests.Response,  # noqa: ARG002
        last_page_size: int,
        last_record: Mapping[str, Json] | None,  # noqa: ARG002
        last_page_token_value: Json = None,
    ) -> Json:
        number = self.start_from_page if last_page_token_value is None else last_page_token_value
        return next_number(number, 1, last_page_size, self._page_size)


@dataclass
class OffsetIncrement(_Counting):
    """Pages that begin at a record's number."""

    inject_on_first_request: bool = False

    @property
    def initial_token(self) -> Json:
        return 0 if self.inject_on_first_request else None

    def next_page_token(
        self,
        response: requests.Response,  # noqa: ARG002
        last_page_size: int,
        last_record: Mapping[str, Json] | None,  # noqa: ARG002
        last_page_token_value: Json = None,
    ) -> Json:
        return next_number(last_page_token_value or 0, last_page_size, last_page_size, self._page_size)


@dataclass
class CursorPaginationStrategy(PaginationStrategy):
    """The response says what the next page is called."""

    cursor_value: Json
    config: Config
    parameters: InitVar[Mapping[str, Json]]
    page_size: int | None = None
    stop_condition: Json = None

    def __post_init__(self, parameters: Mapping[str, Json]) -> None:
        self._cursor = InterpolatedString.create(self.cursor_value, parameters=parameters)
        stop = self.stop_condition
        self._stop = InterpolatedBoolean(stop, parameters=parameters) if isinstance(stop, str) else stop

    def next_page_token(
        self,
        response: requests.Response,
        last_page_size: int,
        last_record: Mapping[str, Json] | None,
        last_page_token_value: Json = None,  # noqa: ARG002
    ) -> Json:
        names = {"response": response.json(), "headers": response.headers, "last_record": last_record,
                 "last_page_size": last_page_size}  # fmt: skip
        if self._stop is not None and self._stop.eval(self.config, **names):
            return None
        return self._cursor.eval(self.config, **names) or None

    def get_page_size(self) -> int | None:
        return self.page_size


def _number(value: Json, config: Config, parameters: Mapping[str, Json]) -> int | None:
    number = InterpolatedString.create(value, parameters=parameters).eval(config)
    if number is None or number == "":
        return None
    if type(number) is not int:
        raise TypeError(f"page_size is {number!r}, expected a whole number")
    return number
