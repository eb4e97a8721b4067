"""A token in the header Authorization."""

from collections.abc import Generator

from cdk.rest.auth.placed import with_header
from cdk.rest.http.authenticator import Given, text_of
from cdk.rest.http.messages import Request, Response


class Bearer:
    """Sends `Authorization: Bearer <token>`; `scheme` is the word before the token."""

    def __init__(self, token: Given, *, scheme: str = "Bearer") -> None:
        self._token, self._scheme = token, scheme

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        yield with_header(request, "Authorization", f"{self._scheme} {text_of(self._token)}")

    def __repr__(self) -> str:
        return f"Bearer(****, scheme={self._scheme!r})"
