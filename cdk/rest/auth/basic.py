"""A user and a password in the header Authorization (RFC 7617)."""

from base64 import b64encode
from collections.abc import Generator

from cdk.rest.auth.placed import with_header
from cdk.rest.http.authenticator import Given, text_of
from cdk.rest.http.messages import Request, Response


class Basic:
    """Sends user and password, in UTF-8. Many APIs take a key as the user and no password."""

    def __init__(self, user: Given, password: Given = "") -> None:
        self._user, self._password = user, password

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        credentials = basic_credentials(text_of(self._user), text_of(self._password))
        yield with_header(request, "Authorization", credentials)

    def __repr__(self) -> str:
        return "Basic(****)"


def basic_credentials(user: str, password: str) -> str:
    """The value of the header Authorization for a user and a password."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()
