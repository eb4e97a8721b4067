"""Session tokens: logins whose responses hold the token to send; the legacy authenticator is that of Metabase."""

from abc import abstractmethod
from collections.abc import Callable

from cdk.base.errors import ManifestError
from cdk.declarative.components.auth.sharing import definition, secret_recorder, shared
from cdk.declarative.components.requests.request_options import RequestOption
from cdk.declarative.components.requests.requesters import join
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_plug_points import AnyAuthenticator, AnyDecoder, AnyRequester
from cdk.rest import Authenticator, JsonDocument
from cdk.rest.auth.session_token import LegacySessionToken, SessionToken
from cdk.rest.auth.static import with_header, with_secret
from cdk.rest.auth.token_owner import AttachToken, register_bearer
from cdk.rest.http.json_path import path


class AnySessionTokenRequest(Component):
    """Attaches a session token to requests."""

    @abstractmethod
    def build(self, ctx: BuildContext) -> AttachToken:
        """Return the function that puts a token into a request."""


class SessionTokenRequestApiKeyAuthenticator(AnySessionTokenRequest):
    """Sends the session token in a header, a query parameter or the body.

    Example:
        type: ApiKey
        inject_into:
          type: RequestOption
          inject_into: header
          field_name: X-Session
        api_token: "Token {{ session_token }}"
    """

    type_name = "ApiKey"

    secret_fields = frozenset({"api_token"})

    inject_into: RequestOption
    """Where in requests the token goes."""
    api_token: str = "{{ session_token }}"
    """The value to send; `session_token` is the token."""

    def build(self, ctx: BuildContext) -> AttachToken:
        option, api_token = self.inject_into, ctx.expression(self, "api_token")
        part, names = option.inject_into, option.path(ctx)
        return lambda request, token: with_secret(request, part, names, api_token.text({"session_token": token}))


class SessionTokenRequestBearerAuthenticator(AnySessionTokenRequest):
    """Sends the session token in the header Authorization.

    Example:
        type: Bearer
    """

    type_name = "Bearer"

    def build(self, ctx: BuildContext) -> AttachToken:
        return lambda request, token: with_header(request, "Authorization", f"Bearer {token}")


class SessionTokenAuthenticator(AnyAuthenticator, kw_only=True):
    """Logs in with a separate request, and sends the token from its response with all others.

    Example:
        type: SessionTokenAuthenticator
        login_requester:
          type: HttpRequester
          url: https://api.example.com/session
          http_method: POST
          request_body_json:
            user: "{{ config['user'] }}"
            password: "{{ config['password'] }}"
        session_token_path: [data, token]
        expiration_duration: PT12H
        request_authentication:
          type: Bearer
    """

    login_requester: AnyRequester
    """The login request."""
    session_token_path: list[str]
    """Path of the token in the login response."""
    expiration_duration: str | None = None
    """How long a token is valid, ISO 8601. Without it, every request is preceded by a login."""
    request_authentication: AnySessionTokenRequest
    """How requests send the token."""
    decoder: AnyDecoder | None = None
    """Decodes the login response; JSON by default."""

    def build(self, ctx: BuildContext) -> Authenticator:
        """Build the authenticator, which streams that log in in the same way share."""
        identity = definition(self, ctx)
        authenticator = shared(ctx.runtime.logins, identity, lambda: self._login(ctx, identity))
        register_bearer(authenticator)
        return authenticator

    def _login(self, ctx: BuildContext, identity: str) -> SessionToken:
        # Only the request is taken from the login requester, so its authenticator and error handler are passed on.
        login, (login_as, judge) = self.login_requester.build(ctx), self.login_requester.sending()
        decoder = JsonDocument() if self.decoder is None else self.decoder.build(ctx)
        token = path(*self.session_token_path)

        return SessionToken(
            lambda: login.draft({}).request(),
            lambda response: token(decoder.decode(response)),
            self.request_authentication.build(ctx),
            life=ctx.duration_from_now(self, "expiration_duration", None),
            identity=identity,
            login_as=None if login_as is None else login_as.build(ctx),
            judge=None if judge is None else judge.build(ctx),
            learn=secret_recorder(ctx),
            clock=ctx.runtime.clock,
        )


class LegacySessionTokenAuthenticator(AnyAuthenticator):
    """Sends a session token from the config, or from a login with user and password; the token is valid for a day.

    Older than SessionTokenAuthenticator, which can do more.

    Example:
        type: LegacySessionTokenAuthenticator
        header: X-Metabase-Session
        login_url: https://metabase.example.com/api/session
        validate_session_url: https://metabase.example.com/api/user/current
        session_token_response_key: id
        username: "{{ config['username'] }}"
        password: "{{ config['password'] }}"
    """

    secret_fields = frozenset({"session_token", "password"})

    header: str
    """Name of the header that carries the token."""
    login_url: str
    """Where to log in: a complete URL, or a path relative to the requester's `url_base`."""
    validate_session_url: str
    """What to request to check whether a token is still valid: a URL or a path, as for `login_url`."""
    session_token_response_key: str
    """Name of the field with the token in the login response."""
    session_token: str | None = None
    """An existing session token, used until it is no longer valid."""
    username: str | None = None
    """The user name for the login."""
    password: str | None = ""
    """The password for the login."""

    def build(self, ctx: BuildContext) -> Authenticator:
        return LegacySessionToken(
            ctx.expression(self, "header").text,
            self._url(ctx, "login_url"),
            token_field=ctx.expression(self, "session_token_response_key").text,
            validate_url=self._url(ctx, "validate_session_url"),
            session_token=ctx.expression(self, "session_token").text,
            user=ctx.expression(self, "username").text,
            password=ctx.expression(self, "password").text,
            learn=secret_recorder(ctx),
            clock=ctx.runtime.clock,
        )

    def _url(self, ctx: BuildContext, field: str) -> Callable[[], str]:
        rest = ctx.expression(self, field)
        # Only a component that a requester builds knows the requester's base URL.
        base = ctx.url_base

        def url() -> str:
            text = rest.text()
            if base is None and "://" not in text:
                raise ManifestError(
                    f"{ctx.where(self, field)}: found {text!r}, a path relative to the url_base of a "
                    "requester, but there is no requester here; write a complete URL"
                )
            return join("" if base is None else base(), text)

        return url
