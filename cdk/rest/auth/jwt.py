"""Jwt: signs a new JSON Web Token (RFC 7519) for each request."""

from base64 import b64encode
from collections.abc import Callable, Generator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from cdk.base.errors import ConfigError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import JsonValue
from cdk.rest.auth.static import ApiKey
from cdk.rest.http.authenticator import Setting, text_of
from cdk.rest.http.messages import Request, RequestPart, Response

Algorithm: TypeAlias = Literal[
    "HS256", "HS384", "HS512",
    "ES256", "ES256K", "ES384", "ES512",
    "RS256", "RS384", "RS512",
    "PS256", "PS384", "PS512",
    "EdDSA",
]  # fmt: skip

_TIMES = frozenset({"iat", "exp", "nbf"})


@dataclass(frozen=True, eq=False, repr=False)
class Jwt:
    """Signs a token with `key` and sends it as `Authorization: <scheme> <token>`, or elsewhere."""

    key: Setting
    """The secret, or a private key in PEM."""
    algorithm: Algorithm
    _: KW_ONLY
    claims: Mapping[str, JsonValue] | Callable[[], Mapping[str, JsonValue]] = field(default_factory=dict)
    """The claims of the token, except `iat`, `nbf` and `exp`, which come from the clock and `life`."""
    headers: Mapping[str, JsonValue] | Callable[[], Mapping[str, JsonValue]] = field(default_factory=dict)
    life: timedelta = timedelta(minutes=20)
    base64_key: bool = False
    """Whether the key is encoded as base64 before it is used to sign."""
    passphrase: Setting = ""
    """The passphrase of an encrypted private key."""
    scheme: Setting = "Bearer"
    """The word before the token; empty to send the token alone."""
    name: str | tuple[str, ...] = "Authorization"
    send_in: RequestPart = "header"
    clock: Clock = system_clock

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Send the request with a token signed for it. Raises ConfigError: as `token`."""
        token, scheme = self.token(), text_of(self.scheme)
        key = ApiKey(f"{scheme} {token}" if scheme else token, name=self.name, send_in=self.send_in)
        yield from key.flow(request)

    def token(self) -> str:
        """Sign a new token. Raises ConfigError: when the key does not fit the algorithm, or a claim is invalid."""
        import jwt  # noqa: PLC0415 - brings cryptography, which few runs need
        from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - as above

        now = int(self.clock().timestamp())
        claims = dict(self.claims() if callable(self.claims) else self.claims)
        if reserved := sorted(_TIMES & claims.keys()):
            why = f"a signed token's {', '.join(reserved)} come from the clock; leave them out of the claims"
            raise ConfigError(why)
        claims |= {"iat": now, "exp": now + int(self.life.total_seconds()), "nbf": now}
        headers = dict(self.headers() if callable(self.headers) else self.headers)
        if headers.get("alg", self.algorithm) != self.algorithm:
            raise ConfigError(f"a signed token's alg is its algorithm, {self.algorithm}; leave it out of the headers")
        try:
            return jwt.encode(claims, self._signing_key(), self.algorithm, headers or None)
        except (jwt.PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, NotImplementedError) as error:
            raise ConfigError(
                f"cannot sign a token with {self.algorithm}: {type(error).__name__}; check that the secret key fits "
                f"this algorithm, its passphrase, and that claims and headers are strings where they must be"
            ) from None

    def _signing_key(self) -> Any:  # noqa: ANN401 - one of the many classes of keys
        key = text_of(self.key)
        if key.startswith("-----BEGIN"):
            # In configs from a form or an environment variable, line breaks may be the two characters `\n`.
            key = key.replace("\\n", "\n")
        if passphrase := text_of(self.passphrase):
            from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - heavy

            return load_pem_private_key(key.encode(), passphrase.encode())
        return b64encode(key.encode()).decode() if self.base64_key else key
