"""CloudStore: an object store (S3, Google Cloud Storage, Azure) through `obstore`."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PermissionDeniedError, UnauthenticatedError
from obstore.store import from_url

from cdk.base.errors import ConfigError, TransientError
from cdk.state.stores.objects import ObjectStore

_MISSING = (NotFoundError, FileNotFoundError)

# fmt: off
_CLIENT = {
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "default_headers",
    "http1_only", "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle",
    "http2_only", "pool_idle_timeout", "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes",
    "proxy_url", "randomize_addresses", "read_timeout", "root_certificate", "timeout", "user_agent",
}
# fmt: on
"""Options of the HTTP client, in obstore 0.12."""


class CloudStore(ObjectStore):
    """Objects under `url`, such as `s3://bucket/folder`. `create` is a PUT with `If-None-Match: *`.

    options: options of obstore, such as `region`, `endpoint` and `access_key_id`, or the names of a pipeline's
    `target.storage`, such as `AWS_ACCESS_KEY_ID`. Missing credentials are taken from the environment.
    obstore retries failed requests. If the first attempt had arrived, the retry is refused, and the caller reads the
    object back to see which run wrote it.
    Raises ConfigError: when obstore does not know the URL or an option.
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None) -> None:
        self.location = url.partition("?")[0]
        try:
            # `Any`: obstore types the options per store, and only the URL determines which store it is.
            make: Any = from_url
            self._store = make(url, **_sorted(options or {}))
        except (BaseError, TypeError, ValueError) as error:
            raise ConfigError(f"the object store cannot be opened: {_first_line(error)}", path=self.location) from None

    def put(self, path: str, data: bytes) -> None:
        with self._translating(path):
            obstore.put(self._store, path, data)

    def _create(self, path: str, data: bytes) -> bool:
        with self._translating(path):
            try:
                obstore.put(self._store, path, data, mode="create")
            except AlreadyExistsError:
                return False
        return True

    def _read(self, path: str) -> bytes | None:
        with self._translating(path):
            try:
                return obstore.get(self._store, path).bytes().to_bytes()
            except _MISSING:
                return None

    def _list(self, folder: str) -> Iterable[str]:
        with self._translating(folder):
            return [item["path"] for page in obstore.list(self._store, prefix=folder or None) for item in page]

    def _delete(self, path: str) -> None:
        with self._translating(path):
            try:
                obstore.delete(self._store, path)
            except _MISSING:
                return

    @contextmanager
    def _translating(self, path: str) -> Iterator[None]:
        """Translate obstore's errors into errors of the kit."""
        where = f"{self.location.rstrip('/')}/{path}"
        try:
            yield
        except (PermissionDeniedError, UnauthenticatedError, PermissionError, *_MISSING) as error:
            raise ConfigError(f"the object store refused: {_first_line(error)}", path=where) from error
        except (BaseError, OSError) as error:
            raise TransientError(f"the object store failed: {_first_line(error)}", path=where) from error


def _sorted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in obstore's form. HTTP client options are separated: among the others they make it panic."""
    options = {_short(name): value for name, value in options.items()}
    client = {name: value for name, value in options.items() if name in _CLIENT}
    others = {name: value for name, value in options.items() if name not in _CLIENT}
    if any(
        str(options.get(name, "")).startswith("http://") for name in ("endpoint", "endpoint_url", "aws_endpoint_url")
    ):
        client.setdefault("allow_http", True)
    return {**others, "client_options": {**client, **others.get("client_options", {})}}


def _short(name: str) -> str:
    """Return an option's name without delta-rs' prefix `aws_` on client options; obstore knows it on the others."""
    name = name.lower()
    return name.removeprefix("aws_") if name.removeprefix("aws_") in _CLIENT else name


def _first_line(error: Exception) -> str:
    """Return an error's message without the debug output that obstore appends to it."""
    return str(error).partition("\n")[0]
