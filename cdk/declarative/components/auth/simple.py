"""Authenticators that send what the config holds: nothing, a key, a token, user and password; or select by it."""

from typing import Annotated

from msgspec import Meta

from cdk.base.errors import ConfigError, ManifestError
from cdk.base.wording import did_you_mean
from cdk.declarative.components.requests.request_options import RequestOption
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_plug_points import AnyAuthenticator
from cdk.rest import ApiKey, Authenticator, Basic, Bearer
from cdk.rest.http.json_path import path


class NoAuth(AnyAuthenticator):
    """Sends no credentials. This is the default.

    Example:
        type: NoAuth
    """

    def build(self, ctx: BuildContext) -> Authenticator | None:
        return None


class ApiKeyAuthenticator(AnyAuthenticator):
    """Sends a key in a header, a query parameter or the body, even if the key is empty. A header needs a name.

    Example:
        type: ApiKeyAuthenticator
        api_token: "{{ config['api_key'] }}"
        inject_into:
          type: RequestOption
          inject_into: header
          field_name: X-API-Key
    """

    secret_fields = frozenset({"api_token"})

    api_token: str | None = None
    """The API key."""
    header: str | None = None
    """Name of the header for the key. Superseded by `inject_into`."""
    inject_into: RequestOption | None = None
    """Where in requests the key goes."""

    def build(self, ctx: BuildContext) -> Authenticator | None:
        """Build the authenticator. Raises ManifestError: when the place for the key is missing, or given twice."""
        if (self.header is None) == (self.inject_into is None):
            why = f"{ctx.where(self, 'inject_into')}: either inject_into or header is required; set one of them"
            raise ManifestError(why)
        key = ctx.expression(self, "api_token").text
        option = self.inject_into
        name = (ctx.expression(self, "header").text(),) if option is None else option.path(ctx)
        part = "header" if option is None else option.inject_into
        return None if part == "header" and not any(name) else ApiKey(key, name=name, send_in=part)


class BearerAuthenticator(AnyAuthenticator):
    """Sends a token in the header `Authorization: Bearer <token>`, even if the token is empty.

    Example:
        type: BearerAuthenticator
        api_token: "{{ config['api_token'] }}"
    """

    secret_fields = frozenset({"api_token"})

    api_token: str
    """The bearer token."""

    def build(self, ctx: BuildContext) -> Authenticator:
        return Bearer(ctx.expression(self, "api_token").text)


class BasicHttpAuthenticator(AnyAuthenticator):
    """Sends a user and a password in the header Authorization. Many APIs take a key as the user and no password.

    Example:
        type: BasicHttpAuthenticator
        username: "{{ config['user'] }}"
        password: "{{ config['password'] }}"
    """

    secret_fields = frozenset({"password"})

    username: str
    """The user name."""
    password: str | None = ""
    """The password."""

    def build(self, ctx: BuildContext) -> Authenticator:
        return Basic(ctx.expression(self, "username").text, ctx.expression(self, "password").text)


class SelectiveAuthenticator(AnyAuthenticator):
    """Selects one of several authenticators by a value of the config.

    Example:
        type: SelectiveAuthenticator
        authenticator_selection_path: [credentials, auth_type]
        authenticators:
          token:
            type: BearerAuthenticator
            api_token: "{{ config['credentials']['token'] }}"
          none:
            type: NoAuth
    """

    authenticator_selection_path: Annotated[list[str], Meta(min_length=1)]
    """Path of the config value that selects the authenticator."""
    authenticators: dict[str, AnyAuthenticator]
    """The authenticators, by the value that selects each."""

    def build(self, ctx: BuildContext) -> Authenticator | None:
        """Build the authenticator that the config names. Raises ConfigError: when it names none of them."""
        where = " > ".join(self.authenticator_selection_path)
        name = path(*self.authenticator_selection_path)(ctx.config)
        known = ", ".join(sorted(self.authenticators))
        if name is None:
            why = f"the config has no value at {where}, which selects the authenticator; set it to one of {known}"
            raise ConfigError(why)
        chosen = self.authenticators.get(str(name))
        if chosen is None:
            hint = did_you_mean(str(name), self.authenticators)
            raise ConfigError(f"found {name!r} at {where} of the config, expected one of {known}{hint}")
        return chosen.build(ctx)
