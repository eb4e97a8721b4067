"""Reads a description from a URL, or from a file and those files of its folder that it refers to; from nowhere else."""

from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from cdk.authoring.drafts.openapi.description import Description
from cdk.base.errors import ConfigError
from cdk.base.values import JsonValue, from_json
from cdk.base.yaml_file import YamlFile, read_text
from cdk.declarative.reading.schema_file import is_file
from cdk.rest import HttpClient, HttpTransport, Request, Transport
from cdk.rest.http.redact import safe_url


def read_description(location: str, transport: Transport | None = None) -> Description:
    """Read the description in a file or at an http(s) URL. Raises ConfigError: when it is missing or invalid."""
    is_url = location.startswith(("http://", "https://"))
    shown = safe_url(location) if is_url else location
    client = HttpClient(transport or HttpTransport())
    text = client.send(Request("GET", location)).text if is_url else read_text(Path(location))
    document = _parsed(text, shown)
    if is_url:
        return Description(document, shown, _base_url(location))
    return Description(document, shown, beside=partial(_file_in, Path(location).parent))


def _parsed(text: str, shown: str) -> JsonValue:
    """Parse a JSON or YAML document. Raises ConfigError: when it is neither."""
    try:
        return from_json(text) if text.lstrip().startswith("{") else YamlFile.parse(text, Path(shown)).value
    except ValueError as error:
        raise ConfigError(f"is not JSON: {error}", path=shown) from error


def _file_in(folder: Path, reference: str) -> JsonValue:
    """Return the document in a file inside the folder; None if there is no such file.

    Raises ConfigError: when it is invalid.
    """
    file = folder / unquote(reference)
    return _parsed(read_text(file), str(file)) if is_file(file, within=folder) else None


def _base_url(url: str) -> str:
    """Return the URL without credentials and query, as the base of relative URLs."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
