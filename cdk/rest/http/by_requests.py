"""What follows the rules of `requests`: proxies of the environment, unusual URLs, mock libraries that patch it.

`requests` takes 14 ms to import, so each function imports it; few runs call one.
"""

from collections.abc import Mapping
from io import BytesIO
from ssl import SSLContext
from typing import NoReturn

import urllib3
from urllib3.exceptions import HTTPError, ProxyError, SSLError
from urllib3.exceptions import TimeoutError as Urllib3Timeout

from cdk.base.errors import ConfigError
from cdk.rest.http.messages import Request

_PROXIES = ("http://", "https://", "socks")
"""What the URLs of proxies begin with."""


def proxy_of(url: str) -> str | None:
    """The URL of the proxy that the environment, or the system, sets for `url`. Raises ConfigError: it is invalid."""
    from requests.utils import get_environ_proxies, prepend_scheme_if_needed, select_proxy  # noqa: PLC0415 - see above

    proxy = select_proxy(url, get_environ_proxies(url))
    if not proxy:
        return None
    try:
        proxy = str(prepend_scheme_if_needed(proxy, "http"))  # type: ignore[no-untyped-call] # not typed there
        host = urllib3.util.parse_url(proxy).host
    except urllib3.exceptions.LocationParseError:
        host = None
    if not host or not proxy.lower().startswith(_PROXIES):
        raise ConfigError(
            "a proxy of the environment is not the URL of one, expected http://host:port (or https, socks5); check "
            "HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
        )
    return proxy


def proxy_manager(proxy: str, connections: int, hosts: int, tls: SSLContext | None) -> urllib3.PoolManager:
    """A pool manager whose connections lead through a proxy, with the login in its URL.

    tls: the certificate checks of connections to the proxy; None if they are not secure.
    Raises ConfigError: for SOCKS, if the package for it is missing.
    """
    from requests.adapters import HTTPAdapter  # noqa: PLC0415 - see above
    from requests.exceptions import InvalidSchema  # noqa: PLC0415 - see above

    options = {} if tls is None else {"proxy_ssl_context": tls}
    try:
        manager: urllib3.PoolManager = HTTPAdapter(hosts, connections).proxy_manager_for(proxy, **options)
    except InvalidSchema:
        raise ConfigError("a SOCKS proxy needs PySocks: pip install pysocks") from None
    return manager


def url_for_proxy(url: str) -> str:
    """`url` without its login and fragment, as a proxy gets it."""
    from requests.utils import urldefragauth  # noqa: PLC0415 - see above

    return str(urldefragauth(url))


def requoted(url: str) -> str:
    """`url` with escapes for the characters that need them, and only for those. Raises ValueError: it is invalid."""
    from requests import PreparedRequest  # noqa: PLC0415 - see above

    prepared = PreparedRequest()
    prepared.prepare_url(url, None)
    return prepared.url or ""


def send_patched(request: Request, url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
    """Return the answer of a mock library. Raises the errors of urllib3 for those of `requests`."""
    import requests  # noqa: PLC0415 - see above

    prepared = requests.PreparedRequest()
    prepared.method, prepared.url, prepared.body = request.method, url, request.body
    prepared.headers = requests.structures.CaseInsensitiveDict(headers)
    prepared.prepare_cookies({})
    try:
        response = requests.Session().send(prepared, allow_redirects=False, stream=True)
        body = response.content
    except requests.RequestException as error:
        _translate(error)
    fields = {name: value for name, value in response.headers.items() if name.lower() != "content-encoding"}
    return urllib3.HTTPResponse(
        BytesIO(body), fields, response.status_code, preload_content=False, enforce_content_length=False
    )


def _translate(error: Exception) -> NoReturn:
    import requests  # noqa: PLC0415 - see above

    match error:
        case requests.exceptions.ProxyError():
            raise ProxyError(str(error), error) from error
        case requests.exceptions.SSLError():
            raise SSLError(error) from error
        case requests.exceptions.Timeout():
            raise Urllib3Timeout(error) from error
        case ValueError():
            raise error
        case _:
            raise HTTPError(error) from error
