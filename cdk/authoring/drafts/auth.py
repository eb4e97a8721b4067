"""Authentication: turns a description's security schemes into an authenticator and the secrets of a config."""

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from cdk.authoring.drafts.draft import ConfigFields, Example, Guess
from cdk.authoring.drafts.names import snake
from cdk.base.values import JsonObject, JsonValue, as_object, as_string, canonical, from_json

_FLOWS = ("clientCredentials", "application", "authorizationCode", "accessCode")
"""Names of OAuth flows in OpenAPI 3 and Swagger 2, the preferred first; the first two need no refresh token."""

_EXAMPLE_TOKEN = "a-token-of-the-tests"  # noqa: S105 - not a real one
_SCHEME = re.compile(r"[A-Za-z][A-Za-z-]{0,19}")
_PREFIX = re.compile(r"[`'\"](?:Authorization: ?)?([A-Za-z][A-Za-z-]*(?: | [a-z]+=))[<{\[A-Z]")
"""Text of a description that shows what precedes the key in a header, as in `Authorization: Token <key>`."""

_CHECK = "`spark-cdk check` with your credentials"


class Login(Struct, frozen=True):
    """How requests log in: fields for the requester, and example responses if tokens are fetched from the API."""

    requester: JsonObject
    guesses: Sequence[Guess] = ()
    examples: Sequence[Example] = ()


def login(
    schemes: Mapping[str, Mapping[str, JsonValue]],
    requirements: Iterable[Sequence[JsonValue]],
    config: ConfigFields,
    absolute: Callable[[str], str],
    *,
    mentions_bearer: bool = False,
) -> Login:
    """Return the login that most operations require; `requirements` are their `security` lists.

    absolute: makes a URL of the description absolute. mentions_bearer: whether the description has the word "bearer".
    Adds the secrets to `config`.
    """
    first = Counter(canonical(each[0]) for each in requirements if each)
    chosen = list(as_object(from_json(first.most_common(1)[0][0]))) if first else list(schemes)[:1]
    names = [name for name in chosen if name in schemes]
    if not names:
        return Login({"authenticator": {"type": "NoAuth"}})
    requester: JsonObject = {}
    guesses: list[Guess] = []
    examples: list[Example] = []
    for name in names:
        scheme = schemes[name]
        if as_string(scheme.get("name")).lower() == "authorization":
            prefix = _PREFIX.search(as_string(scheme.get("description")))
            if prefix[1] == "Bearer " if prefix else mentions_bearer:
                scheme = {"type": "http", "scheme": "bearer"}
        if "authenticator" not in requester:
            component, what, token = authenticator(name, scheme, config, absolute)
            requester["authenticator"] = component
            guesses.append(Guess(f"authentication: {what}", _why(name, schemes, bool(first)), _CHECK))
            examples += token
        elif scheme.get("type") == "apiKey":
            part = "request_parameters" if scheme.get("in") == "query" else "request_headers"
            own = as_string(scheme.get("name")) or name
            key = config.add(snake(name), _secret(f"key ({own})"))
            sent = {"Cookie": f"{own}={key}"} if scheme.get("in") == "cookie" else {own: key}
            requester[part] = {**as_object(requester.get(part)), **sent}
    return Login(requester, guesses, examples)


def _why(name: str, schemes: Mapping[str, JsonValue], required: bool) -> str:  # noqa: FBT001 - a fact, not a switch
    others = [other for other in schemes if other != name]
    why = f"the scheme `{name}` is {'the first that most paths require' if required else 'described'}"
    return f"{why}; others are {', '.join(others)}" if others else why


def authenticator(
    name: str, scheme: Mapping[str, JsonValue], config: ConfigFields, absolute: Callable[[str], str]
) -> tuple[JsonObject, str, Sequence[Example]]:
    """Return the authenticator of a scheme, a description of it, and the example response with its token."""
    match scheme.get("type"), as_string(scheme.get("scheme")).lower():
        case ("basic", _) | ("http", "basic"):
            return basic(config), "user and password", ()
        case "apiKey", _:
            return _key(name, scheme, config)
        case "oauth2", _:
            return _oauth(scheme, config, absolute)
        case _:
            return bearer(config), "a token in the header `Authorization`, as `Bearer`", ()


def bearer(config: ConfigFields, token: str | None = None) -> JsonObject:
    """Return an authenticator that sends a token of the config. token: its value, if known."""
    expression = config.add("access_token", _secret("access token"), value=token)
    return {"type": "BearerAuthenticator", "api_token": expression}


def basic(config: ConfigFields, credentials: str | None = None) -> JsonObject:
    """Return an authenticator with a user and a password of the config. credentials: their values, `user:password`."""
    known = (None, None) if credentials is None else credentials.partition(":")[::2]
    user = config.add("username", {"type": "string", "title": "user"}, value=known[0])
    password = config.add("password", _secret("password"), value=known[1])
    return {"type": "BasicHttpAuthenticator", "username": user, "password": password}


def api_key(config: ConfigFields, name: str, part: str, prefix: str = "", key: str | None = None) -> JsonObject:
    """Return an authenticator that sends a key of the config in a header or a parameter. key: its value, if known.

    part: `header` or `request_parameter`. name: of the header or parameter. prefix: precedes the key.
    """
    expression = config.add("api_key", _secret(f"key ({name})"), value=key)
    return {
        "type": "ApiKeyAuthenticator",
        "api_token": f"{prefix}{expression}",
        "inject_into": {"type": "RequestOption", "inject_into": part, "field_name": name},
    }


def authenticator_of_header(authorization: str, config: ConfigFields) -> JsonObject:
    """Return an authenticator that sends an Authorization header of the same form as `authorization`, not empty."""
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() == "bearer" and credentials:
        return bearer(config, credentials)
    if scheme.lower() == "basic" and (decoded := _decoded(credentials)) is not None:
        return basic(config, decoded)
    prefix = f"{scheme} " if credentials and _SCHEME.fullmatch(scheme) else ""
    return api_key(config, "Authorization", "header", prefix, authorization.removeprefix(prefix))


def session_login(requester: JsonObject, token_path: Sequence[str], life: str = "PT1H") -> Login:
    """Return the login by a token from the response to another request, renewed after `life` or when it is rejected."""
    authenticator: JsonObject = {
        "type": "SessionTokenAuthenticator",
        "login_requester": requester,
        "session_token_path": list(token_path),
        "expiration_duration": life,
        "request_authentication": {"type": "Bearer"},
    }
    answer: JsonValue = _EXAMPLE_TOKEN
    for name in reversed(token_path):
        answer = {name: answer}
    path, method = as_string(requester["path"]), as_string(requester["http_method"])
    what = f"`{'.'.join(token_path)}` in the response to {method} {path}, sent as `Bearer`, for {life}"
    guess = Guess(f"log-in: {what}", "the command requests a token", _CHECK)
    return Login({"authenticator": authenticator}, [guess], [Example(path, answer, method=method)])


def _decoded(text: str) -> str | None:
    """Decode `user:password` from base64; None if the text is not that."""
    try:
        credentials = b64decode(text, validate=True).decode()
    except ValueError:
        return None
    return credentials if ":" in credentials else None


def _key(name: str, scheme: Mapping[str, JsonValue], config: ConfigFields) -> tuple[JsonObject, str, Sequence[Example]]:
    header = as_string(scheme.get("name")) or name
    if scheme.get("in") == "query":
        return api_key(config, header, "request_parameter"), f"a key in the parameter `{header}`", ()
    if scheme.get("in") == "cookie":
        return api_key(config, "Cookie", "header", f"{header}="), f"a key in the cookie `{header}`", ()
    if header.lower() == "authorization" and (prefix := _PREFIX.search(as_string(scheme.get("description")))):
        return api_key(config, header, "header", prefix[1]), f"a key in the header `{header}`, behind `{prefix[1]}`", ()
    prefixed = ", with any prefix such as `Bearer`" if header.lower() == "authorization" else ""
    return api_key(config, header, "header"), f"a key in the header `{header}`{prefixed}", ()


def _oauth(
    scheme: Mapping[str, JsonValue], config: ConfigFields, absolute: Callable[[str], str]
) -> tuple[JsonObject, str, Sequence[Example]]:
    flows = as_object(scheme.get("flows")) or {as_string(scheme.get("flow")): scheme}
    flow = next((name for name in _FLOWS if as_string(as_object(flows.get(name)).get("tokenUrl"))), None)
    if flow is None:
        return bearer(config), f"an access token of OAuth 2.0: {', '.join(flows)} gives none without a browser", ()
    url = absolute(as_string(as_object(flows[flow]).get("tokenUrl")))
    client = flow in _FLOWS[:2]
    component: JsonObject = {
        "type": "OAuthAuthenticator",
        "token_refresh_endpoint": url,
        "client_id": config.add("client_id", {"type": "string", "title": "client id"}),
        "client_secret": config.add("client_secret", _secret("client secret")),
        "grant_type": "client_credentials" if client else "refresh_token",
    }
    if not client:
        component["refresh_token"] = config.add("refresh_token", _secret("refresh token"))
    answer: JsonObject = {"access_token": _EXAMPLE_TOKEN, "token_type": "Bearer", "expires_in": 3600}
    what = f"OAuth 2.0, {'client credentials' if client else 'a refresh token'}"
    return component, what, [Example(url, answer, method="POST")]


def _secret(title: str) -> JsonObject:
    return {"type": "string", "title": title, "airbyte_secret": True}
