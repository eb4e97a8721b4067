"""OAuthAuthenticator: sends access tokens and renews them."""

from collections.abc import Callable, Mapping
from copy import deepcopy

from msgspec import Struct, field

from cdk.base.errors import ManifestError
from cdk.base.values import JsonObject, JsonValue, canonical
from cdk.declarative.components.auth.jwt import JwtAuthenticator
from cdk.declarative.components.auth.sharing import config_saver, definition, secret_recorder, shared
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_plug_points import AnyAuthenticator
from cdk.declarative.syntax.json_edit import remover
from cdk.rest import Authenticator, Bearer, OAuth2
from cdk.rest.auth.oauth2 import StoredTokens, TokenFields
from cdk.rest.auth.token_owner import register_bearer
from cdk.rest.auth.token_response import Refusal
from cdk.rest.http.authenticator import Setting
from cdk.rest.http.json_path import path

_CLIENT_ID = ("credentials", "client_id")
_CLIENT_SECRET = ("credentials", "client_secret")


class RefreshTokenUpdater(Struct, frozen=True):
    """Declares that a refresh token works only once, and where in the config the next one is saved."""

    refresh_token_name: str = "refresh_token"
    """Name of the field with the new refresh token in the token response."""
    access_token_config_path: list[str] = field(default_factory=lambda: ["credentials", "access_token"])
    """Path in the config where the access token is saved."""
    refresh_token_config_path: list[str] = field(default_factory=lambda: ["credentials", "refresh_token"])
    """Path in the config where the refresh token is saved."""
    token_expiry_date_config_path: list[str] = field(default_factory=lambda: ["credentials", "token_expiry_date"])
    """Path in the config where the expiry of the access token is saved."""
    refresh_token_error_status_codes: list[int] | None = None
    """Statuses of token responses that may mean that the refresh token is invalid."""
    refresh_token_error_key: str | None = None
    """Name of the field of such a response that contains the error code."""
    refresh_token_error_values: list[str] | None = None
    """Error codes that mean that the refresh token is invalid."""


class OAuthAuthenticator(AnyAuthenticator):
    """OAuth 2.0: obtains access tokens, and new ones when they have expired or are refused.

    Example:
        type: OAuthAuthenticator
        token_refresh_endpoint: https://login.example.com/token
        client_id: "{{ config['client_id'] }}"
        client_secret: "{{ config['client_secret'] }}"
        refresh_token: "{{ config['refresh_token'] }}"
    """

    secret_fields = frozenset({"client_secret", "refresh_token", "access_token_value"})

    token_refresh_endpoint: str | None = None
    """URL that issues access tokens."""
    client_id: str | None = None
    """The client ID of the OAuth application."""
    client_secret: str | None = None
    """The client secret of the OAuth application."""
    refresh_token: str | None = None
    """The refresh token from the user's consent, with which access tokens are requested."""
    grant_type: str = "refresh_token"
    """The OAuth grant type, such as `refresh_token` or `client_credentials`."""
    scopes: list[str] | None = None
    """The scopes to request for the access token."""
    access_token_value: str | None = None
    """An existing access token, used until it expires."""
    token_expiry_date: str | None = None
    """When the token in `access_token_value` expires."""
    token_expiry_date_format: str | None = None
    """Format of expiry timestamps, including the one in the token response unless that is a number of seconds."""
    refresh_request_body: JsonObject | None = None
    """Additional fields of the token request."""
    refresh_request_headers: JsonObject | None = None
    """Headers of the token request. With an `Authorization` header, the client ID and secret are not sent as fields."""
    send_refresh_request_as_query_params: bool = False
    """Whether the fields of the token request are sent in the query instead of the body."""
    grant_type_name: str = "grant_type"
    """Name of the field with the grant type in the token request."""
    client_id_name: str = "client_id"
    """Name of the field with the client ID in the token request."""
    client_secret_name: str = "client_secret"
    """Name of the field with the client secret in the token request."""
    refresh_token_name: str = "refresh_token"
    """Name of the field with the refresh token in the token request."""
    access_token_name: str = "access_token"
    """Name of the field with the access token in the token response."""
    expires_in_name: str = "expires_in"
    """Name of the field with the lifetime of the access token in the token response."""
    refresh_token_error_status_codes: list[int] | None = None
    """Statuses of token responses that may mean that the refresh token is invalid."""
    refresh_token_error_key: str | None = None
    """Name of the field of such a response that contains the error code."""
    refresh_token_error_values: list[str] | None = None
    """Error codes that mean that the refresh token is invalid."""
    refresh_token_updater: RefreshTokenUpdater | None = None
    """Declares that each refresh token works only once, and where the next one is saved."""
    profile_assertion: JwtAuthenticator | None = None
    """Creates the signed assertion for a token request with a JWT."""
    use_profile_assertion: bool | None = False
    """Whether the signed assertion is sent instead of the client's credentials and the refresh token."""

    def build(self, ctx: BuildContext) -> Authenticator:
        """Build the authenticator, which streams that authenticate in the same way share.

        Raises ManifestError: when a setting is missing without which no access token can be obtained.
        """
        self._check(ctx)
        if self.token_refresh_endpoint is None and self.refresh_token_updater is None:
            return Bearer(self._text(ctx, "access_token_value"))  # used as long as it works
        authenticator = shared(ctx.runtime.logins, self._key(ctx), lambda: self._oauth(ctx))
        register_bearer(authenticator)
        return authenticator

    def _key(self, ctx: BuildContext) -> str:
        updater = self.refresh_token_updater
        if updater is None:
            return definition(self, ctx)
        # A refresh token that works only once must have a single owner, whatever the streams' parameters are.
        paths = [updater.refresh_token_config_path, updater.access_token_config_path]
        paths.append(updater.token_expiry_date_config_path)
        config = deepcopy(dict(ctx.config))
        for names in paths:
            remover(names)(config)
        return canonical([self._text(ctx, "token_refresh_endpoint")(), paths, config])

    def _check(self, ctx: BuildContext) -> None:
        """Raise ManifestError: when a required setting is missing."""
        field, missing = "token_refresh_endpoint", ""
        if self.token_refresh_endpoint is None:
            if self.access_token_value is None:
                missing = "there is no way to obtain an access token; set this field, or access_token_value"
        elif self.use_profile_assertion:
            if self.profile_assertion is None:
                field, missing = "profile_assertion", "is missing; use_profile_assertion needs it"
        elif self.refresh_token_updater is None:
            if self.grant_type == "refresh_token" and self.refresh_token is None:
                field, missing = "refresh_token", "is missing; set it, or set grant_type to client_credentials"
            elif self.client_id is None or self.client_secret is None:
                field, missing = "client_id", "client_id and client_secret are required; set both"
        if missing:
            raise ManifestError(f"{ctx.where(self, field)}: {missing}")

    def _oauth(self, ctx: BuildContext) -> OAuth2:
        client_id: Setting = self._text(ctx, "client_id")
        client_secret: Setting = self._text(ctx, "client_secret")
        refresh_token: Setting | None = None if self.refresh_token is None else self._text(ctx, "refresh_token")
        access_token: Setting | None = (
            None if self.access_token_value is None else self._text(ctx, "access_token_value")
        )
        expires: Setting = self._text(ctx, "token_expiry_date")
        refresh_token_name, stored, assertion = self.refresh_token_name, None, None
        if (updater := self.refresh_token_updater) is not None:
            refresh_token_name = updater.refresh_token_name
            stored = StoredTokens(
                config_saver(ctx),
                tuple(updater.access_token_config_path),
                tuple(updater.refresh_token_config_path),
                tuple(updater.token_expiry_date_config_path),
                self.token_expiry_date_format,
            )
            client_id, client_secret = _saved(ctx, _CLIENT_ID, client_id), _saved(ctx, _CLIENT_SECRET, client_secret)
            refresh_token = _saved(ctx, stored.refresh_token, self._text(ctx, "refresh_token"))
            access_token, expires = _saved(ctx, stored.access_token, ""), _saved(ctx, stored.expiry, "")
        if self.use_profile_assertion and self.profile_assertion is not None:
            assertion = self.profile_assertion.build(ctx).token
        return OAuth2(
            self._text(ctx, "token_refresh_endpoint"),
            client_id=client_id,
            client_secret=client_secret,
            refresh_token=refresh_token,
            grant_type=self._text(ctx, "grant_type"),
            extra={} if assertion is not None else self._extra(ctx),
            headers=self._headers(ctx),
            send_in="request_parameter" if self.send_refresh_request_as_query_params else "body_data",
            assertion=assertion,
            access_token=access_token,
            expires=expires,
            expiry_format=self.token_expiry_date_format,
            refusal=self._refusal(),
            stored=stored,
            fields=TokenFields(
                self.grant_type_name,
                self.client_id_name,
                self.client_secret_name,
                refresh_token_name,
                self.access_token_name,
                self.expires_in_name,
            ),
            learn=secret_recorder(ctx),
            clock=ctx.runtime.clock,
        )

    def _text(self, ctx: BuildContext, field: str) -> Callable[[], str]:
        return ctx.expression(self, field).text

    def _extra(self, ctx: BuildContext) -> Callable[[], Mapping[str, JsonValue]]:
        body, scopes = ctx.mapping(self, "refresh_request_body"), self.scopes
        if scopes:
            return lambda: {**body.value(), "scopes": scopes}
        return body.value

    def _headers(self, ctx: BuildContext) -> Callable[[], Mapping[str, str]]:
        headers = ctx.mapping(self, "refresh_request_headers")
        return lambda: {name: str(value) for name, value in headers.value().items()}

    def _refusal(self) -> Refusal:
        updater = self.refresh_token_updater
        part = self if updater is None or updater.refresh_token_error_status_codes is None else updater
        return Refusal(
            tuple(part.refresh_token_error_status_codes or ()),
            part.refresh_token_error_key or "",
            tuple(part.refresh_token_error_values or ()),
        )


def _saved(ctx: BuildContext, names: tuple[str, ...], otherwise: Setting) -> Setting:
    """Return the value that an earlier token exchange, or the user's consent, saved in the config; else `otherwise`."""
    value = path(*names)(ctx.config)
    return str(value) if value else otherwise
