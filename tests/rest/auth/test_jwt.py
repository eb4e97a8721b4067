from base64 import b64encode
from datetime import timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from cdk import ConfigError
from cdk.rest import Request
from cdk.rest.auth.jwt import Jwt
from tests.rest.api import NOON, Time

USERS = Request("GET", "https://api.test/users")
KEY = "a-secret-that-is-long-enough-for-sha-256"


def read(token: str, key: Any, algorithm: str = "HS256") -> Any:
    return jwt.decode(token, key, [algorithm], options={"verify_exp": False, "verify_nbf": False, "verify_aud": False})


def test_a_token_is_signed_for_each_request() -> None:
    time = Time()
    authenticator = Jwt(KEY, "HS256", claims={"iss": "me"}, headers={"kid": "k"}, clock=time.clock)

    sent = next(authenticator.flow(USERS))

    scheme, token = sent.headers["Authorization"].split()
    now = int(NOON.timestamp())
    assert scheme == "Bearer"
    assert read(token, KEY) == {"iss": "me", "iat": now, "nbf": now, "exp": now + 1200}
    assert jwt.get_unverified_header(token) == {"alg": "HS256", "typ": "JWT", "kid": "k"}
    assert sent.hide(token) == "****"
    assert KEY not in repr(authenticator)


def test_a_key_may_be_put_into_base64_first() -> None:
    token = Jwt(KEY, "HS256", base64_key=True, life=timedelta(), clock=Time().clock).token()

    assert read(token, b64encode(KEY.encode()).decode())["exp"] == int(NOON.timestamp())


@pytest.mark.parametrize("line_break", ["\n", "\\n"])
def test_a_private_key_may_be_encrypted_and_written_on_one_line(line_break: str) -> None:
    key = generate_private_key(SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pass")).decode()
    signer = Jwt(pem.replace("\n", line_break), "ES256", passphrase="pass", scheme="", clock=Time().clock)

    sent = next(signer.flow(USERS))

    assert "iat" in read(sent.headers["Authorization"], key.public_key(), "ES256")


@pytest.mark.parametrize("given", [{"algorithm": "RS256"}, {"claims": {"iss": 5}}, {"claims": {"exp": 1}}, {"key": ""}])
def test_what_cannot_be_signed_is_an_error_without_the_key(given: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"key": KEY, "algorithm": "HS256", **given}

    with pytest.raises(ConfigError) as caught:
        Jwt(**settings, clock=Time().clock).token()

    assert KEY not in str(caught.value)


def test_a_header_names_no_other_algorithm() -> None:
    with pytest.raises(ConfigError, match="a signed token's alg is its algorithm, HS256"):
        Jwt(KEY, "HS256", headers={"alg": "HS512"}).token()

    assert read(Jwt(KEY, "HS256", headers={"alg": "HS256"}, clock=Time().clock).token(), KEY)


def test_a_key_on_an_unknown_curve_is_an_error_without_the_key() -> None:
    key = generate_private_key(SECP256R1()).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    curve = bytes.fromhex("06082a8648ce3d030107")
    text = b64encode(key.replace(curve, curve[:-1] + b"\x77")).decode()
    pem = f"-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n"

    with pytest.raises(ConfigError, match="cannot sign a token with ES256: UnsupportedAlgorithm") as caught:
        Jwt(pem, "ES256", clock=Time().clock).token()

    assert text not in str(caught.value)
