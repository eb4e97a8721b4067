"""LegacySessionTokenAuthenticator: user and password for a session token, as Metabase does it."""

from collections.abc import Callable

from pydantic import Field

from cdk.base.errors import ManifestError
from cdk.declarative.components.auth.sharing import learner
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.plug_points import AnyAuthenticator
from cdk.rest import Authenticator
from cdk.rest.auth.session_token import LegacySessionToken


class LegacySessionTokenAuthenticator(AnyAuthenticator):
    """A session token that the config gives, or that a login with user and password gives; it lives for a day.

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

    header: str = Field(description="Name of the header for the token.")
    login_url: str = Field(description="Where to log in: a whole URL, or what follows the requester's `url_base`.")
    validate_session_url: str = Field(description="What to ask to see whether a given token is valid; as `login_url`.")
    session_token_response_key: str = Field(description="Name of the token in the answer to the login.")
    session_token: str | None = Field(None, description="A token to begin with.")
    username: str | None = Field(None, description="The user.")
    password: str | None = Field("", description="The password.")

    def build(self, ctx: BuildContext) -> Authenticator:
        return LegacySessionToken(
            ctx.expression(self, "header").text,
            self._url(ctx, "login_url"),
            token_field=ctx.expression(self, "session_token_response_key").text,
            validate_url=self._url(ctx, "validate_session_url"),
            token=ctx.expression(self, "session_token").text,
            user=ctx.expression(self, "username").text,
            password=ctx.expression(self, "password").text,
            learn=learner(ctx),
            clock=ctx.runtime.clock,
        )

    def _url(self, ctx: BuildContext, field: str) -> Callable[[], str]:
        rest = ctx.expression(self, field)
        # Where the requester begins is known to its requests only if it says so to what it builds.
        base = ctx.url_base

        def url() -> str:
            text = rest.text()
            if "://" in text:
                return text
            if base is None:
                raise ManifestError(
                    f"{ctx.where(self, field)}: found {text!r}, which follows the url_base of a requester, and "
                    f"there is none here; write the whole URL"
                )
            return f"{base().strip()}{text}"

        return url
