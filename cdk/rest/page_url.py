"""URLs as page tokens: no secret gets into the state with them.

Such a URL comes from a response, and later from a saved state: what may be sent to it is the request's scope's to say.
"""

from dataclasses import replace
from urllib.parse import parse_qsl, urljoin, urlsplit

from cdk.base.errors import BadState
from cdk.rest.message import Request, Response
from cdk.rest.paginator import Token
from cdk.rest.redact import without_params


def next_url(response: Response, link: str) -> str:
    """The URL that `link`, relative or not, means; without the secrets that the request had."""
    request = response.request
    try:
        url = urljoin(response.url, link)
    except ValueError:
        url = link
    return without_params(url, {name.lower() for name in request.params if request.hides(name)} | request.secret)


def ask_url(request: Request, token: Token) -> Request:
    """`request` for the URL of a token, which brings its own parameters; secret ones are added again.

    Raises BadState: the token has no URL.
    """
    url = token.get("url")
    if not isinstance(url, str):
        raise BadState("page token", dict(token), 'a token like {"url": "https://..."}')
    brought = {name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)}
    secrets = {name: value for name, value in request.params.items() if request.hides(name) and name not in brought}
    # Only the secrets stay: the parameters of the first page must not be asked twice.
    return replace(request, url=url, params=secrets)
