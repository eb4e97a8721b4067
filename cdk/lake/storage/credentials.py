"""The storage options of a pipeline: named as in delta-rs, and passed to both delta-rs and pyarrow's file systems.

The shorter names of the stores of state logs (`access_key_id`) are accepted as well, in upper or lower case.

Both libraries must access the same store with the same keys, so an option that only one of them supports is refused.
Missing options are taken from the driver's environment, under the same names, and sent to the tasks. Credentials that
are not there either (a profile, the role of a machine) are found by each machine itself.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from pyarrow import fs

from cdk.base.errors import ConfigError
from cdk.base.values import JsonObject, JsonValue, Location
from cdk.base.wording import did_you_mean

_STORAGE = Location(keys=("target", "storage"))

Kind: TypeAlias = Literal["s3", "gs", "az"]
Options: TypeAlias = tuple[tuple[str, str], ...]

SCHEMES: Mapping[str, Kind] = MappingProxyType(
    {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
)

# A store that does not respond must become an error while the user is still waiting, but a store that is busy for a
# moment must not. pyarrow waits up to 1, 2, 4 seconds between its attempts.
_CONNECT_SECONDS = 5
_REQUEST_SECONDS = 60
_ATTEMPTS = 4
_DELTA: Mapping[str, str] = MappingProxyType(
    {
        "connect_timeout": f"{_CONNECT_SECONDS}s",
        "timeout": f"{_REQUEST_SECONDS}s",
        "max_retries": "5",
        "retry_timeout": f"{_REQUEST_SECONDS}s",
        "backoff_config.init_backoff": "100ms",
        "backoff_config.max_backoff": "2s",
        "backoff_config.base": "2",
    }
)
_DELTA_OF: Mapping[Kind, Mapping[str, str]] = MappingProxyType(
    # Write the log's next version only if no other writer has: without this, the later of two runs would win.
    {"s3": {"aws_conditional_put": "etag"}, "gs": {}, "az": {}}
)


class _Option(Struct, frozen=True):
    """A storage option. argument: pyarrow's name for it; empty if only delta-rs needs it. secret: never shown."""

    argument: str
    secret: bool = False
    flag: bool = False


_OPTIONS: Mapping[Kind, Mapping[str, _Option]] = MappingProxyType(
    {
        "s3": {
            "AWS_ACCESS_KEY_ID": _Option("access_key", secret=True),
            "AWS_SECRET_ACCESS_KEY": _Option("secret_key", secret=True),
            "AWS_SESSION_TOKEN": _Option("session_token", secret=True),
            "AWS_REGION": _Option("region"),
            "AWS_DEFAULT_REGION": _Option("region"),
            "AWS_ENDPOINT_URL": _Option("endpoint_override"),
            "AWS_ALLOW_HTTP": _Option("", flag=True),
            "AWS_SKIP_SIGNATURE": _Option("anonymous", flag=True),
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": _Option("force_virtual_addressing", flag=True),
        },
        "gs": {"GOOGLE_SKIP_SIGNATURE": _Option("anonymous", flag=True)},
        "az": {
            "AZURE_STORAGE_ACCOUNT_NAME": _Option("account_name"),
            "AZURE_STORAGE_ACCOUNT_KEY": _Option("account_key", secret=True),
            "AZURE_STORAGE_SAS_TOKEN": _Option("sas_token", secret=True),
            "AZURE_STORAGE_CLIENT_ID": _Option("client_id"),
            "AZURE_STORAGE_CLIENT_SECRET": _Option("client_secret", secret=True),
            "AZURE_STORAGE_TENANT_ID": _Option("tenant_id"),
        },
    }
)
_PREFIXES: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {"s3": ("AWS",), "gs": ("GOOGLE",), "az": ("AZURE_STORAGE", "AZURE")}
)
"""The prefixes that complete the shorter names of the stores of state logs."""
_PAIRS: Mapping[Kind, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {
        "s3": (("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),),
        "gs": (),
        "az": (("AZURE_STORAGE_CLIENT_ID", "AZURE_STORAGE_CLIENT_SECRET", "AZURE_STORAGE_TENANT_ID"),),
    }
)


def options_of(kind: Kind, storage: Mapping[str, JsonValue], environ: Mapping[str, str]) -> Options:
    """Return the options of a store from `storage`, completed from the environment. Values become strings.

    Secret options count as one: if `storage` has any of them, the environment supplies no other.
    Raises ConfigError: when a name is unknown, or a part of the credentials is missing.
    """
    supported = _OPTIONS[kind]
    explicit: dict[str, str] = {}
    for spelled, value in storage.items():
        name = _full_name(kind, spelled)
        if name is None:
            raise ConfigError(f"unknown option{did_you_mean(spelled, supported)}", path=_STORAGE.below(spelled))
        if name in explicit:
            raise ConfigError(f"{name} is set twice, in two spellings", path=_STORAGE.below(spelled))
        explicit[name] = _text(value)
    inherited = {name: environ[name] for name in supported if environ.get(name)}
    if any(supported[name].secret for name in explicit):
        inherited = {name: value for name, value in inherited.items() if not supported[name].secret}
    options = inherited | explicit
    for together in _PAIRS[kind]:
        present = [name for name in together if name in options]
        if present and (missing := [name for name in together if name not in options]):
            raise ConfigError(f"{present[0]} is set, but {missing[0]} is missing", path=_STORAGE)
    return tuple(sorted(options.items()))


def secrets_of(options: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the values of secret options, and the passwords in addresses."""
    secret = {name for supported in _OPTIONS.values() for name, option in supported.items() if option.secret}
    for name, value in options.items():
        text = _text(value)
        if any(_full_name(kind, name) in secret for kind in _OPTIONS):
            yield text
        elif "@" in text and (password := urlsplit(text).password):
            yield unquote(password)


def for_delta(kind: Kind, options: Options) -> dict[str, str]:
    """Return the options for delta-rs, with timeouts and retries."""
    return {**_DELTA, **_DELTA_OF[kind], **dict(options)}


@lru_cache(maxsize=16)
def file_system(kind: Kind, account: str, options: Options) -> fs.FileSystem:
    """Return pyarrow's file system for these options, cached for each process.

    account: Azure's storage account, if the address names it. Raises ConfigError: when Azure's account is missing.
    """
    arguments: JsonObject = {}
    for name, value in options:
        option = _OPTIONS[kind][name]
        if option.argument and not (name == "AWS_DEFAULT_REGION" and "region" in arguments):
            arguments[option.argument] = value.lower() in {"true", "1"} if option.flag else value
    if kind == "s3":
        return fs.S3FileSystem(
            **arguments,
            connect_timeout=_CONNECT_SECONDS,
            request_timeout=_REQUEST_SECONDS,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
            allow_delayed_open=True,  # a small file takes one request instead of three
        )
    if kind == "gs":
        return fs.GcsFileSystem(**arguments, retry_time_limit=timedelta(seconds=_REQUEST_SECONDS))
    arguments = {"account_name": account, **arguments} if account else arguments
    if "account_name" not in arguments:
        raise ConfigError(
            "the storage account is missing: set AZURE_STORAGE_ACCOUNT_NAME, "
            "or use an address such as abfss://container@account.dfs.core.windows.net/prefix",
            path=_STORAGE,
        )
    return fs.AzureFileSystem(**arguments)


def _full_name(kind: Kind, spelled: str) -> str | None:
    """Return delta-rs' name of an option spelled in full or as in `state_provider` (`access_key_id`); None: unknown."""
    name = spelled.upper()
    name = "ENDPOINT_URL" if name == "ENDPOINT" else name
    names = (name, *(f"{prefix}_{name}" for prefix in _PREFIXES[kind]))
    return next((full for full in names if full in _OPTIONS[kind]), None)


def _text(value: JsonValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
