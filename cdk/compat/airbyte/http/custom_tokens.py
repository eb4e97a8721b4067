"""CustomTokens: obtains and shares the access token of a custom authenticator by the same rules as for OAuth2.

Custom authenticators get their token from their method `get_access_token`, whatever else they override. This class
replaces that method on the object. It calls the original only where a token may be obtained (see `TokenOwner`), and
returns the result to all other callers.
"""

import threading
from collections.abc import Generator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from cdk.base.errors import CredentialsError
from cdk.base.values import JsonValue
from cdk.compat.airbyte.custom_object import CustomObject
from cdk.compat.airbyte.http.auth import LENT, DeclarativeOauth2Authenticator
from cdk.rest import Request, Response
from cdk.rest.auth.token_owner import TokenOwner
from cdk.rest.auth.token_response import usable_until
from cdk.rest.auth.tokens import TokenState
from cdk.rest.http.authenticator import Learn

_METHOD = "get_access_token"
_ALWAYS = datetime.max.replace(tzinfo=UTC)


class CustomTokens(TokenOwner):
    """Owns the token of a custom authenticator that has `get_access_token`.

    login: identifies the authenticator among all others. If the object extends DeclarativeOauth2Authenticator, the
    expiry of a token and the next refresh token are known. Any other object is called for each use, and may return a
    token that it has cached.
    """

    def __init__(self, custom: CustomObject, login: Sequence[JsonValue], learn: Learn) -> None:
        super().__init__(learn, custom.runtime.clock)
        self._custom, self._get = custom, custom.get(_METHOD)
        self._asking: int | None = None
        self._known: DeclarativeOauth2Authenticator | None = None
        self._refresh_token: str | None = None
        self._client_secret, self._parts = "", login
        if isinstance(known := custom.instance, DeclarativeOauth2Authenticator):
            self._known = known
            # Overridden methods may raise any exception before the first request.
            with suppress(Exception):
                self._refresh_token, self._client_secret = known.get_refresh_token(), known.get_client_secret()
                if self._single_use:
                    self._parts = [known.get_token_refresh_endpoint(), known.get_client_id(), self._refresh_token]
        object.__setattr__(custom.instance, _METHOD, self._handed)

    def _handed(self) -> str:
        """The replacement of the object's `get_access_token`. Raises CdkErrors, and TokenEnded in a task."""
        if self._asking == threading.get_ident():
            token: str = self._get()
            return token
        flow = self.token()
        try:
            next(flow)
        except StopIteration as end:
            token = end.value
            if self._known is not None:
                self._known.lend(token)
            return token
        raise AssertionError

    def _identity_values(self) -> Sequence[JsonValue]:
        return self._parts

    @property
    def _configured_refresh_token(self) -> str | None:
        return self._refresh_token

    @property
    def _storage_secret(self) -> str:
        return f"{self._configured_refresh_token or ''}\n{self._client_secret}"

    @property
    def _single_use(self) -> bool:
        return self._known is not None and self._known.single_use

    def _begin(self, state: TokenState, now: datetime) -> None:
        if self._known is not None and state.started is None and (token := self._known.access_token):
            state.access_token, state.started = token, now
            state.expires = self._known.get_token_expiry_date() or _ALWAYS

    def _is_valid_for(self, state: TokenState, now: datetime, seconds: float) -> bool:
        return self._known is not None and super()._is_valid_for(state, now, seconds)

    def _renew(self, state: TokenState, now: datetime) -> Generator[Request, Response, None]:
        yield from ()  # the object sends its requests itself
        self._asking = threading.get_ident()
        try:
            with self._custom.calling(_METHOD):
                if self._known is not None:
                    self._known.lend(None)
                    if state.refresh_token is not None:
                        self._known.refresh_token = state.refresh_token
                token = self._get()
                expires = self._after(token, state)
        finally:
            self._asking = None
        usable = usable_until(expires, now)
        self._store(token, usable, state, elsewhere=self._single_use)
        state.access_token, state.started, state.expires = token, now, usable

    def _after(self, token: object, state: TokenState) -> datetime:
        """Store the refresh token that the object received. Returns the expiry of the token, `_ALWAYS` if unknown.

        Raises CredentialsError: `token` is not a string, or empty.
        """
        if not isinstance(token, str) or not token:
            name = f"{self._custom.name}.{_METHOD}"
            raise CredentialsError(f"{name} returned {type(token).__name__}, expected a non-empty string")
        self._learn_secret(token)
        if self._known is None:
            return _ALWAYS
        following = self._known.get_refresh_token()
        if (
            following
            and self._configured_refresh_token
            and following != (state.refresh_token or self._configured_refresh_token)
        ):
            self._learn_secret(following)
            state.refresh_token, state.rotated = following, True
        expires = self._known.get_token_expiry_date()
        return _ALWAYS if expires is None or expires == LENT else expires
