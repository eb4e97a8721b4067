"""File URLs: the folder or file that one names."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from cdk.base.errors import ConfigError


def path_of(url: str) -> Path:
    """The path of a file URL, `file:///folder` or `file:/folder`, with its percent-escapes decoded.

    Raises ConfigError: it names a host, a relative path, a query or a fragment.
    """
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise ConfigError("expected three slashes and an absolute path: file:///folder", path=url)
    if "?" in url or "#" in url:
        raise ConfigError("expected a path without ? and #; in a file URL they are written %3F and %23", path=url)
    return Path(unquote(parts.path))
