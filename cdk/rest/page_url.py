"""URLs as page tokens: they stay on the API's host, and no secret gets into the state with them.

Such a URL comes from a response, and later from a saved state; the credentials are sent wherever it leads.
"""

from dataclasses import replace
from urllib.parse import parse_qsl, urljoin, urlsplit

from cdk.base.errors import BadState, FatalError
from cdk.rest.message import Request, Response
from cdk.rest.origin import origin
from cdk.rest.paginator import Token
from cdk.rest.redact import safe_url, without_params


class ForeignPage(FatalError):
    """The URL of a page leads to another host than the API's."""


def next_url(response: Response, link: str) -> str:
    """The URL that `link`, relative or not, means; without the secrets that the request had.

    Raises ForeignPage: it leads to another host than the one asked.
    """
    request = response.request
    try:
        url = urljoin(response.url, link)
    except ValueError:
        url = link
    _stay(request, url)
    return without_params(url, {name.lower() for name in request.params if request.hides(name)} | request.secret)


def ask_url(request: Request, token: Token) -> Request:
    """`request` for the URL of a token, which brings its own parameters; secret ones are added again.

    Raises BadState: the token has no URL. Raises ForeignPage: it leads to another host.
    """
    url = token.get("url")
    if not isinstance(url, str):
        raise BadState("page token", dict(token), 'a token like {"url": "https://..."}')
    _stay(request, url)
    brought = {name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)}
    secrets = {name: value for name, value in request.params.items() if request.hides(name) and name not in brought}
    # Only the secrets stay: the parameters of the first page must not be asked twice.
    return replace(request, url=url, params=secrets)


def _stay(request: Request, url: str) -> None:
    api = origin(request.url)
    # A proxy in front of an API may write http or its own port into links: refusing those says what to change.
    if origin(url) != api:
        raise ForeignPage(
            f"{request}: the next page is {safe_url(url, request.secret)}, expected one on {api}; the credentials are "
            f"not sent elsewhere: use that address as `url_base`, or a paginator that takes only the token out of it"
        )
