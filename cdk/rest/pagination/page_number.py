"""Paginators that count: page numbers and offsets.

If `parse` drops records, declare where the response says that there is more (`more`): counting the remaining records
would make a full page look short, and so like the last one.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from cdk.base.errors import BadState, ConfigError
from cdk.base.values import JsonValue, Record
from cdk.rest.http.json_path import as_path
from cdk.rest.http.messages import Request, Response
from cdk.rest.pagination.last_page import DoubtsEnd
from cdk.rest.pagination.page_signs import unused_next_page
from cdk.rest.tracing import explain_next
from cdk.streams.page import Token


def next_number(number: int, step: int, records: int, size: int | None) -> int | None:
    """Return the number after `number`; None if the page was the last: it has no records, or fewer than `size`."""
    if records == 0:
        explain_next("the page has no records")
        return None
    if size is None:
        explain_next("the page has records, and neither a size nor a field says which is the last")
        return number + step
    explain_next("the page has %s records, and a full one has %s", records, size)
    return None if records < size else number + step


class Counting(DoubtsEnd):
    """A paginator that counts: it knows the token of the next page before this page has arrived."""

    def __init__(self, size: int | None, more: Sequence[str] | None, *, in_body: bool) -> None:
        self._in_body = in_body
        self.size = size
        """The number of records of a full page, if known."""
        self._more = None if more is None else as_path(more, "more")
        self.deciding_paths = [] if self._more is None else [("response", *self._more)]

    @abstractmethod
    def ahead(self, token: Token) -> Token:
        """Return the token of the page after that of `token`, assuming that there is one."""

    @abstractmethod
    def token_after(self, token: Token | None, records: int) -> Token:
        """Return the token of the page after that of `token`, which had `records` records, possibly not a full page."""

    def _following(self, number: int, step: int, response: Response, records: Sequence[Record]) -> int | None:
        """Return the number `step` after that of a page; None if the page was the last."""
        if self._more is None:
            return next_number(number, step, len(records), self.size)
        value = response.value_at(*self._more)
        explain_next("%s of the body says that there is %s", " > ".join(self._more), "more" if value else "no more")
        return number + step if value else None

    def _with(self, request: Request, fields: Mapping[str, JsonValue]) -> Request:
        return request.with_body_fields(fields) if self._in_body else request.with_params(fields)

    def doubt(self, response: Response) -> str:
        return response.absence(*self._more) if self._more is not None else unused_next_page(response)


class PageNumber(Counting):
    """Numbered pages: `?page=3&per_page=100`. The token is `{"page": 3}`, with `page_size` if there is a `size`.

    start: the number of the first page. param: the parameter with the number. size: the number of records of a full
    page; size_param: the parameter that requests it. more: the path of a flag in the body that is true if there are
    more pages. in_body: whether the parameters are fields of the request's JSON body.

    The last page is the one whose flag is false or missing; without `more`, one with fewer than `size` records or none.
    Pages of another size start at other records, so a token that was saved with another `size` restarts its slice.
    """

    def __init__(
        self,
        *,
        start: int = 1,
        param: str = "page",
        size: int | None = None,
        size_param: str | None = None,
        more: Sequence[str] | None = None,
        in_body: bool = False,
    ) -> None:
        super().__init__(size, more, in_body=in_body)
        self._start, self._param, self._size_params = start, param, _size_params(size, size_param)

    def next(self, response: Response, records: Sequence[Record], last: Token | None) -> Token | None:
        number = self._following(self._number(last), 1, response, records)
        if number is None:
            return None
        return {"page": number} if self.size is None else {"page": number, "page_size": self.size}

    def apply(self, request: Request, token: Token | None) -> Request:
        return self._with(request, {**self._size_params, self._param: self._number(token)})

    def ahead(self, token: Token) -> Token:
        return {**token, "page": self._number(token) + 1}

    def token_after(self, token: Token | None, records: int) -> Token:
        return self.ahead(token or {"page": self._start})

    def _number(self, token: Token | None) -> int:
        if token is None:
            return self._start
        if token.get("page_size", self.size) != self.size:
            raise BadState("page token", dict(token), f"a page of {self.size} records, which is `size` now")
        return _count(token, "page")


class Offset(Counting):
    """Pages by the offset of their first record: `?offset=200&limit=100`. The token is `{"offset": 200}`.

    size: the number of records of a full page. param, size_param: the parameters with the offset and with the size;
    None for the latter if the source decides. more: the path of a flag in the body that is true if there are more
    pages. in_body: whether the parameters are fields of the request's JSON body.

    The last page is the one whose flag is false or missing; without `more`, one with fewer than `size` records.
    """

    def __init__(
        self,
        size: int,
        *,
        param: str = "offset",
        size_param: str | None = "limit",
        more: Sequence[str] | None = None,
        in_body: bool = False,
    ) -> None:
        super().__init__(size, more, in_body=in_body)
        self._size, self._param, self._size_params = size, param, _size_params(size, size_param)

    def next(self, response: Response, records: Sequence[Record], last: Token | None) -> Token | None:
        number = self._following(self._offset(last), self._size, response, records)
        return None if number is None else {"offset": number}

    def apply(self, request: Request, token: Token | None) -> Request:
        return self._with(request, {**self._size_params, self._param: self._offset(token)})

    def ahead(self, token: Token) -> Token:
        return {**token, "offset": self._offset(token) + self._size}

    def token_after(self, token: Token | None, records: int) -> Token:
        return {"offset": self._offset(token) + records}

    def _offset(self, token: Token | None) -> int:
        return 0 if token is None else _count(token, "offset")


def _size_params(size: int | None, size_param: str | None) -> dict[str, JsonValue]:
    if size is not None and size < 1:
        raise ConfigError(f"a page of {size} records: expected at least 1")
    if size_param is None:
        return {}
    if size is None:
        raise ConfigError(f"the parameter {size_param!r} needs a page size: set `size`")
    return {size_param: size}


def _count(token: Token, name: str) -> int:
    number = token.get(name)
    if type(number) is not int:
        raise BadState("page token", dict(token), f'a token like {{"{name}": 2}}')
    return number
