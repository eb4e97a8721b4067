"""Reads a description from a file or a URL; nothing else is fetched."""

from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from cdk.authoring.drafts.openapi.description import Description
from cdk.base.errors import ConfigError
from cdk.base.values import from_json
from cdk.base.yaml_file import YamlFile
from cdk.rest import HttpClient, Request, RequestsTransport, Transport
from cdk.rest.http.redact import safe_url


def read_description(location: str, transport: Transport | None = None) -> Description:
    """The description in a file, or at an http(s) URL. Raises ConfigError: there is none."""
    is_url = location.startswith(("http://", "https://"))
    shown = safe_url(location) if is_url else location
    try:
        text = _fetched(location, transport or RequestsTransport()) if is_url else Path(location).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", path=shown) from error
    try:
        document = from_json(text) if text.lstrip().startswith("{") else YamlFile.parse(text, Path(shown)).value
    except ValueError as error:
        raise ConfigError(f"is not JSON: {error}", path=shown) from error
    return Description(document, shown, _origin(location) if is_url else "")


def _fetched(url: str, transport: Transport) -> str:
    return HttpClient(transport).send(Request("GET", url)).text


def _origin(url: str) -> str:
    """The URL without what is secret in it: others are joined to it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
