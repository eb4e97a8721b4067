"""OAuth with single-use refresh tokens: each exchange returns the next one, which is saved in the config."""

from collections.abc import Sequence
from typing import Any

from cdk.base.values import JsonValue
from cdk.compat.airbyte.custom_object import runtime
from cdk.compat.airbyte.datetimes import ab_datetime_format
from cdk.compat.airbyte.http.auth import DeclarativeOauth2Authenticator
from cdk.compat.airbyte.interpolation import Text
from cdk.compat.airbyte.plain_types import Config
from cdk.rest import path as value_at
from cdk.rest.auth.tokens import TokenNotIssued, held_tokens

_CREDENTIALS = "credentials"
_PASSED_ON = frozenset({
    "scopes", "access_token_name", "expires_in_name", "refresh_token_name", "refresh_request_body",
    "refresh_request_headers", "grant_type_name", "grant_type", "client_id_name", "client_secret_name",
})  # fmt: skip
"""Settings that are passed to DeclarativeOauth2Authenticator."""


class DeclarativeSingleUseRefreshTokenOauth2Authenticator(DeclarativeOauth2Authenticator):
    """Reads its tokens from the config, and has new ones saved there."""

    single_use = True

    def __init__(
        self,
        connector_config: Config,
        token_refresh_endpoint: str = "",
        *,
        client_id: Text = None,
        client_secret: Text = None,
        access_token_config_path: Sequence[str] = (_CREDENTIALS, "access_token"),
        refresh_token_config_path: Sequence[str] = (_CREDENTIALS, "refresh_token"),
        token_expiry_date_config_path: Sequence[str] = (_CREDENTIALS, "token_expiry_date"),
        token_expiry_date_format: str | None = None,
        token_expiry_is_time_of_expiration: bool = False,
        **more: Any,  # noqa: ANN401 - of different types
    ) -> None:
        self._paths = tuple(access_token_config_path), tuple(refresh_token_config_path)
        self._expiry_path = tuple(token_expiry_date_config_path)
        super().__init__(
            config=connector_config,
            parameters={},
            client_id=client_id or _at(connector_config, (_CREDENTIALS, "client_id")),
            client_secret=client_secret or _at(connector_config, (_CREDENTIALS, "client_secret")),
            token_refresh_endpoint=token_refresh_endpoint,
            refresh_token=_at(connector_config, self._paths[1]),
            token_expiry_date=_at(connector_config, self._expiry_path) or None,
            token_expiry_date_format=token_expiry_date_format,
            token_expiry_is_time_of_expiration=token_expiry_is_time_of_expiration or bool(token_expiry_date_format),
            access_token_value=_at(connector_config, self._paths[0]) or None,
            **{name: value for name, value in more.items() if name in _PASSED_ON},
        )

    def get_access_token(self) -> str:
        """Return the token; if it has expired, get a new one and first save the tokens and the expiry in the config.

        Raises TaskAsked: it has expired, and this is a task, which must not use up a refresh token.
        """
        if self.token_has_expired():
            if held_tokens() is not None:
                raise TokenNotIssued
            token, seconds, following = self.refresh_access_token()
            self._held, self.refresh_token = token, following
            for secret in (token, following):
                runtime().learn(secret)
            self.set_token_expiry_date(seconds)
            expires = self.get_token_expiry_date()
            runtime().save_config(
                {
                    self._paths[0]: token,
                    self._paths[1]: following,
                    self._expiry_path: "" if expires is None else ab_datetime_format(expires),
                }
            )
        return self.access_token

    def refresh_access_token(self) -> tuple[str, JsonValue, str]:  # type: ignore[override] # connectors expect it
        """Request a new token; return it, the expiry that the server states, and the next refresh token."""
        answer = self._get_refresh_access_token_response()
        token, seconds = str(answer[self.get_access_token_name()]), answer.get(self.get_expires_in_name())
        return token, seconds, str(answer.get(self.get_refresh_token_name()) or self.get_refresh_token() or "")


def _at(config: JsonValue, path: Sequence[str]) -> str:
    value = value_at(*path)(config)
    return "" if value is None else str(value)
