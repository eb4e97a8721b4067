"""Paginators that follow the response: a cursor, or the URL of the next page."""

from collections.abc import Sequence

from cdk.base.errors import BadState, ConfigError, DecodeError
from cdk.base.values import JsonValue, Record
from cdk.base.wording import nearest
from cdk.rest.http.json_path import as_path
from cdk.rest.http.messages import Request, Response
from cdk.rest.pagination.last_page import DoubtsEnd
from cdk.rest.pagination.page_signs import links
from cdk.rest.pagination.page_url import next_url, with_page_url
from cdk.rest.tracing import explain_next
from cdk.streams.page import Token


class CursorToken(DoubtsEnd):
    """The response contains the cursor or URL of the next page. Token: `{"cursor": "abc"}` or `{"url": "https://..."}`.

    names: its path in the body; header: the header that contains it instead. param: the query parameter in which to
    send it; None if it is the URL of the next page. more: the path of a flag in the body that is true if there are more
    pages, for sources that return a cursor even with the last one. optional: whether the source omits it from a last
    page, so that there is no warning if the only page of a read lacks it. in_body: whether `param` is a field of the
    request's JSON body. until_empty: whether the source always returns one, so that the first page without records is
    the last.

    The last page is the one where it is null, an empty string or missing. `next` raises DecodeError: when `more` says
    that there are more pages but the cursor or URL is missing.
    """

    def __init__(
        self,
        *names: str,
        header: str | None = None,
        param: str | None = None,
        more: Sequence[str] | None = None,
        optional: bool = False,
        in_body: bool = False,
        until_empty: bool = False,
    ) -> None:
        if bool(names) == (header is not None):
            why = 'CursorToken: declare where the token is, either "a", "path" in the body or header="Name"'
            raise ConfigError(why)
        self._extract, self._more = as_path(names, "CursorToken"), None if more is None else as_path(more, "more")
        self._header, self._param, self._optional = header, param, optional
        self._in_body, self._until_empty = in_body, until_empty
        token = ("response", *self._extract) if header is None else ("headers", header)
        self.deciding_paths = [token] if self._more is None else [token, ("response", *self._more)]

    def next(self, response: Response, records: Sequence[Record], last: Token | None) -> Token | None:
        if self._until_empty and not records:
            explain_next("the page has no records")
            return None
        if self._more is not None and not response.value_at(*self._more):
            explain_next("%s of the body says that there is no more", " > ".join(self._more))
            return None
        value = self._value(response)
        where = f"{' > '.join(self._extract)} of the body" if self._header is None else f"the header {self._header}"
        explain_next("%s %s", where, "is empty" if value is None or value == "" else "names the next page")
        if value is None or value == "":
            if self._more is not None:
                raise DecodeError(
                    f"{response.request}: {' > '.join(self._more)} of the body says that there is more, but {where} "
                    f"is empty{(why := self._missing(response)) and f': there is {why}'}; correct the path"
                )
            return None
        return {"url": next_url(response, str(value))} if self._param is None else {"cursor": value}

    def doubt(self, response: Response) -> str:
        if self._more is not None:
            return response.absence(*self._more)
        return "" if self._optional else self._missing(response)

    def apply(self, request: Request, token: Token | None) -> Request:
        if token is None:
            return request
        if self._param is None:
            return with_page_url(request, token)
        if "cursor" not in token:
            raise BadState("page token", dict(token), 'a token like {"cursor": "abc"}')
        named = {self._param: token["cursor"]}
        return request.with_body_fields(named) if self._in_body else request.with_params(named)

    def _missing(self, response: Response) -> str:
        if self._header is None:
            return response.absence(*self._extract)
        near = nearest(self._header.lower(), response.headers)
        absent = f"no header {self._header!r}{'' if near is None else f' (is it {near!r}?)'}"
        return "" if self._header in response.headers else absent

    def _value(self, response: Response) -> JsonValue:
        if self._header is not None:
            return response.headers.get(self._header)
        value: JsonValue = response.value_at(*self._extract)
        return value


class LinkHeader:
    """The header `Link` has the URL of the next page, with `rel="next"` (RFC 8288). The token is `{"url": ...}`."""

    deciding_paths: Sequence[tuple[str, ...]] = (("headers", "link", "next", "url"),)

    def next(self, response: Response, records: Sequence[Record], last: Token | None) -> Token | None:
        following = links(response.headers.get("link", "")).get("next")
        explain_next("the header Link has %s", 'no rel="next"' if following is None else 'a rel="next"')
        return None if following is None else {"url": next_url(response, following["url"])}

    def apply(self, request: Request, token: Token | None) -> Request:
        return request if token is None else with_page_url(request, token)
