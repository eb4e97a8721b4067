"""Signed tokens: JSON Web Tokens (RFC 7519), a new one for each request."""

from base64 import b64encode
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import timedelta
from typing import Literal, TypeAlias

from cdk.base.errors import ConfigError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.values import Json
from cdk.rest.auth.static import SecretLocation, with_secret
from cdk.rest.http.authenticator import Setting, text_of
from cdk.rest.http.messages import Request, Response

Algorithm: TypeAlias = Literal[
    "HS256", "HS384", "HS512",
    "ES256", "ES256K", "ES384", "ES512",
    "RS256", "RS384", "RS512",
    "PS256", "PS384", "PS512",
    "EdDSA",
]  # fmt: skip

_TIMES = frozenset({"iat", "exp", "nbf"})


class Jwt:
    """Signs a token with `key` and sends it as `Authorization: <scheme> <token>`, or elsewhere.

    key: the secret, or a private key in PEM, encrypted with `passphrase` if there is one. base64_key: the key is
        signed with in base64. claims, headers: of the token, or functions that give them; the claims `iat`, `nbf` and
        `exp` are made from the clock and `life`. scheme: the word before the token; empty for none.
    """

    def __init__(
        self,
        key: Setting,
        algorithm: Algorithm,
        *,
        claims: Mapping[str, Json] | Callable[[], Mapping[str, Json]] | None = None,
        headers: Mapping[str, Json] | Callable[[], Mapping[str, Json]] | None = None,
        life: timedelta = timedelta(minutes=20),
        base64_key: bool = False,
        passphrase: Setting | None = None,
        scheme: Setting = "Bearer",
        name: str | Sequence[str] = "Authorization",
        send_in: SecretLocation = "header",
        clock: Clock = system_clock,
    ) -> None:
        self._key, self._algorithm, self._base64_key, self._passphrase = key, algorithm, base64_key, passphrase
        self._claims, self._headers, self._life, self._scheme = claims or {}, headers or {}, life, scheme
        self._path, self._send_in = (name,) if isinstance(name, str) else tuple(name), send_in
        self._clock = clock

    def flow(self, request: Request) -> Generator[Request, Response, None]:
        """Raises ConfigError: the key does not fit, or a claim is none."""
        token, scheme = self.token(), text_of(self._scheme)
        yield with_secret(request, self._send_in, self._path, f"{scheme} {token}" if scheme else token)

    def token(self) -> str:
        """A token signed now. Raises ConfigError: the key does not fit the algorithm, or a claim is none."""
        import jwt  # noqa: PLC0415 - brings cryptography, which few runs need

        now = int(self._clock().timestamp())
        claims = dict(self._claims() if callable(self._claims) else self._claims)
        if reserved := sorted(_TIMES & claims.keys()):
            raise ConfigError(
                f"a signed token's {', '.join(reserved)} come from the clock; leave them out of the claims"
            )
        claims |= {"iat": now, "exp": now + int(self._life.total_seconds()), "nbf": now}
        headers = dict(self._headers() if callable(self._headers) else self._headers)
        try:
            return jwt.encode(claims, self._signing_key(), self._algorithm, headers or None)
        except (jwt.PyJWTError, ValueError, TypeError, NotImplementedError) as error:
            raise ConfigError(
                f"cannot sign a token with {self._algorithm}: {type(error).__name__}; check that the secret key is one "
                f"for this algorithm, its passphrase, and that claims and headers are texts where they must be"
            ) from None

    def _signing_key(self) -> Json:
        key = text_of(self._key)
        if key.startswith("-----BEGIN"):
            # Configs that went through a form or an environment variable have the line breaks as two characters.
            key = key.replace("\\n", "\n")
        passphrase = "" if self._passphrase is None else text_of(self._passphrase)
        if passphrase:
            from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 - heavy

            return load_pem_private_key(key.encode(), passphrase.encode())
        return b64encode(key.encode()).decode() if self._base64_key else key

    def __repr__(self) -> str:
        return f"Jwt(****, {self._algorithm!r}, send_in={self._send_in!r})"
