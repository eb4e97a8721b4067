"""JwtAuthenticator: tokens that the connector signs itself."""

from collections.abc import Callable, Mapping
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import asdict

from cdk.base.values import JsonObject
from cdk.declarative.components.requests.request_options import RequestOption
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_plug_points import AnyAuthenticator
from cdk.rest.auth.jwt import Algorithm, Jwt


class JwtHeaders(Struct, frozen=True):
    """The standard headers of a signed token."""

    kid: str | None = None
    """The ID of the signing key, if the API accepts several keys."""
    typ: str | None = "JWT"
    """The type of the token."""
    cty: str | None = None
    """The content type of the token's payload."""


class JwtPayload(Struct, frozen=True):
    """The standard claims of a signed token."""

    iss: str | None = None
    """The issuer of the token."""
    sub: str | None = None
    """The subject: whom the token identifies."""
    aud: str | None = None
    """The audience: the service that the token is for."""


class JwtAuthenticator(AnyAuthenticator, kw_only=True):
    """Sends a JSON Web Token that is signed for each request. It is valid for `token_duration` from then on.

    Example:
        type: JwtAuthenticator
        secret_key: "{{ config['secret_key'] }}"
        algorithm: HS256
        header_prefix: Bearer
        jwt_payload:
          iss: "{{ config['key_id'] }}"
    """

    secret_fields = frozenset({"secret_key", "passphrase"})

    secret_key: str
    """The signing key: a shared secret, or a private key in PEM format."""
    base64_encode_secret_key: bool | str | None = False
    """Whether the key is base64-encoded before it is used for signing; may be an expression."""
    algorithm: Algorithm
    """The signature algorithm."""
    token_duration: int | None = 1200
    """How long a token is valid, in seconds."""
    header_prefix: str | None = None
    """The word in front of the token, such as `Bearer`."""
    jwt_headers: JwtHeaders | None = None
    """The standard headers of the token."""
    additional_jwt_headers: JsonObject | None = None
    """Additional headers of the token."""
    jwt_payload: JwtPayload | None = None
    """The standard claims of the token."""
    additional_jwt_payload: JsonObject | None = None
    """Additional claims of the token."""
    passphrase: str | None = None
    """The passphrase of an encrypted private key."""
    request_option: RequestOption | None = None
    """Where in requests the token goes; the header `Authorization` by default."""

    def build(self, ctx: BuildContext) -> Jwt:
        option = self.request_option or RequestOption(inject_into="header", field_name="Authorization")
        return Jwt(
            ctx.expression(self, "secret_key").text,
            self.algorithm,
            claims=self._fields(ctx, "jwt_payload", "additional_jwt_payload"),
            headers=self._fields(ctx, "jwt_headers", "additional_jwt_headers"),
            life=timedelta(seconds=1200 if self.token_duration is None else self.token_duration),
            base64_key=ctx.expression(self, "base64_encode_secret_key").true(),
            passphrase=ctx.expression(self, "passphrase").text,
            scheme=ctx.expression(self, "header_prefix").text,
            name=option.path(ctx),
            send_in=option.inject_into,
            clock=ctx.runtime.clock,
        )

    def _fields(self, ctx: BuildContext, usual: str, more: str) -> Callable[[], JsonObject]:
        """Return a function that computes claims or headers of a token. Standard ones that are empty are omitted."""
        part: Struct | None = getattr(self, usual)
        written = asdict(part) if part is not None else {}
        texts = {name: ctx.expression(self, usual, text) for name, text in written.items() if text}
        extra = ctx.nested(self, more) if getattr(self, more) else None

        def fields() -> JsonObject:
            written = None if extra is None else extra.value()
            explicit = dict(written) if isinstance(written, Mapping) else {}
            return explicit | {name: text for name, expression in texts.items() if (text := expression.text())}

        return fields
