"""A folder in an object store, accessed through pyarrow's file systems, and explanations of the store's errors.

An object is written as a whole or not at all, and is durable once the store has confirmed it. A Parquet file whose
writer is interrupted is an upload that never completes. Measured with pyarrow 26: removing the last object of a folder
leaves an empty object with the folder's name, which readers of a table ignore.
"""

import hashlib
import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote, urlsplit

import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyarrow import fs

from cdk.base.documents import path_of
from cdk.base.errors import CdkError, ConfigError, TransientError
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue
from cdk.lake.storage.credentials import SCHEMES, Kind, Options, file_system, for_delta, options_of, secrets_of
from cdk.lake.storage.folder import FileInfo, Folder, LocalFolder, cache_folder, in_one_line

_SHOWN = 300
_XML_CODE = re.compile(r"<Code>(\w+)</Code>(?:.*?<Message>(.*?)</Message>)?", re.DOTALL)
_OF_A_STORE = re.compile(r"object store|Generic (S3|GCS|MicrosoftAzure)|HTTP error|Error performing|Kernel error ->")
_KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or their equivalents,"

_BAD_KEYS = (
    "InvalidAccessKeyId|INVALID_ACCESS_KEY_ID|SignatureDoesNotMatch|SIGNATURE_DOES_NOT_MATCH|UNRECOGNIZED_CLIENT|"
    "InvalidToken|INVALID_CLIENT_TOKEN_ID|ExpiredToken|AuthenticationFailed|401 Unauthorized"
)

# Errors of stores and their clients, and what they mean; the most specific first.
_REFUSALS = (
    (r"NoSuchBucket|NO_SUCH_BUCKET|ContainerNotFound", "there is no such bucket; create it, or correct the address"),
    (_BAD_KEYS, f"the store rejects the access keys; correct {_KEYS} in target.storage or in the environment"),
    (
        r"AccessDenied|ACCESS_DENIED|403 Forbidden|AuthorizationPermissionMismatch|HTTP response code 403",
        f"access denied; {_KEYS} must allow to list, read, write and delete objects there",
    ),
    (
        r"PermanentRedirect|AuthorizationHeaderMalformed|301 Moved|HTTP response code 301",
        "the bucket is in another region; set AWS_REGION to it",
    ),
    (r"URL scheme is not allowed", "the endpoint is http://, not https://; set AWS_ALLOW_HTTP to true to allow it"),
)
_UNREACHABLE = re.compile(r"NETWORK_CONNECTION|error sending request|tcp connect error|dns error|Could not connect")


@dataclass(frozen=True)
class ObjectStoreFolder(Folder):
    """A folder in an object store. scheme: as the user wrote it. bucket: with the account, if the address has one.

    key: the folder's prefix, without a slash at either end; empty for the bucket itself. options: contain secrets.
    """

    scheme: str
    bucket: str
    key: str
    options: Options = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (f"/{self.key}" if self.key else "")

    def join(self, *names: str) -> "ObjectStoreFolder":
        return ObjectStoreFolder(self.scheme, self.bucket, "/".join(filter(None, (self.key, *names))), self.options)

    @property
    def parent(self) -> "ObjectStoreFolder":
        return replace(self, key=self.key.rpartition("/")[0])

    @property
    def uri(self) -> str:
        return f"{self.scheme}://{self.bucket}/{quote(self.key)}"

    @property
    def storage_options(self) -> dict[str, str]:
        return for_delta(self._kind, self.options)

    @property
    def table_settings(self) -> dict[str, str]:
        # Opening a table takes a request for each commit since the log's last checkpoint, and so does committing:
        # 190 and 75 requests after 60 commits with a checkpoint every 100 commits, the default, which disks use; 24
        # and 16 with this setting.
        return {"delta.checkpointInterval": "10"}

    @property
    def local_path(self) -> Path:
        return cache_folder() / "targets" / hashlib.sha256(str(self).encode()).hexdigest()[:16]

    def make(self) -> None:
        """Do nothing: a store has no folders to create."""

    def open(self, name: str) -> pa.NativeFile:
        return self._files.open_output_stream(self._at(name))

    def make_durable(self, name: str) -> FileInfo:
        with self.explaining():
            info = self._files.get_file_info(self._at(name))
            return FileInfo(info.size, info.mtime_ns // 1_000_000)

    def read(self, name: str) -> bytes:
        with self.explaining(), self._files.open_input_stream(self._at(name)) as file:
            content: bytes = file.read()
            return content

    def reader(self, name: str) -> pa.NativeFile:
        with self.explaining():
            return self._files.open_input_file(self._at(name))

    def write(self, name: str, content: bytes, *, private: bool = False) -> None:  # noqa: ARG002 - stores have no users
        with self.explaining(), self.open(name) as file:
            file.write(content)

    def sizes(self, names: Collection[str]) -> Mapping[str, int]:
        with self.explaining():
            infos = self._files.get_file_info([self._at(name) for name in names])
        named_infos = zip(names, infos, strict=True)
        return {name: info.size for name, info in named_infos if info.type is fs.FileType.File}

    def names(self) -> list[str]:
        with self.explaining():
            infos = self._files.get_file_info(fs.FileSelector(self._at(), allow_not_found=True))
        return [info.base_name for info in infos if info.type is fs.FileType.File]

    def folders(self) -> list[str]:
        with self.explaining():
            infos = self._files.get_file_info(fs.FileSelector(self._at(), allow_not_found=True))
        return [info.base_name for info in infos if info.type is fs.FileType.Directory]

    def delete(self, name: str) -> None:
        with suppress(OSError):
            self._files.delete_file(self._at(name))

    def explain(self, error: Exception, stream: str = "") -> Exception:
        """As in Folder. A FileNotFoundError is returned unchanged, and so is an error of delta-rs itself."""
        text = str(error)
        match error:
            case FileNotFoundError() | CdkError():
                return error
            case DeltaError() if not _OF_A_STORE.search(text):
                return error
        reason = _in_one_line(text)
        mask = Secrets(secrets_of(dict(self.options))).mask
        where = {"path": str(self), "stream": stream, "detail": mask(f"{type(error).__name__}: {reason}")}
        for pattern, meaning in _REFUSALS:
            if refusal := re.search(pattern, text):
                return ConfigError(f"{meaning} ({refusal[0]})", **where)
        reason = mask(reason)[:_SHOWN]
        if _UNREACHABLE.search(text):
            endpoint = dict(self.options).get("AWS_ENDPOINT_URL")
            at = f" at {endpoint}" if endpoint else ""
            return TransientError(f"the store cannot be reached{at}; what was committed is safe: {reason}", **where)
        return TransientError(f"the store returned an error; what was committed is safe: {reason}", **where)

    @property
    def _kind(self) -> Kind:
        return SCHEMES[self.scheme]

    @property
    def _files(self) -> fs.FileSystem:
        return file_system(self._kind, self.bucket.partition("@")[2].partition(".")[0], self.options)

    def _at(self, name: str = "") -> str:
        """Return the path of a name as pyarrow spells it: the bucket first."""
        return "/".join(filter(None, (self.bucket.partition("@")[0], self.key, name)))


def folder_at(address: str, storage: Mapping[str, JsonValue], environ: Mapping[str, str] = os.environ) -> Folder:
    """Return the folder at a user's address: a path, `file:///path`, or the address of a store.

    storage: the options of a store; not used for a local folder. Raises ConfigError: when the address is not of a known
    store, or the store does not have the options.
    """
    if address.startswith("file:"):
        return LocalFolder(path_of(address))
    if "://" not in address:
        return LocalFolder(Path(address).absolute())
    parts = urlsplit(address)
    if parts.scheme not in SCHEMES:
        raise ConfigError(f"expected a folder, or an address that begins with {known_schemes()}", path=parts.scheme)
    key = parts.path.removeprefix("/").removesuffix("/")
    user, _, _ = parts.netloc.rpartition("@")
    if ":" in user:  # some tools accept s3://key:secret@bucket
        why = "access keys are not read from an address; put them into target.storage"
        raise ConfigError(why, path=f"{parts.scheme}://")
    if not parts.netloc or parts.query or parts.fragment or {"", ".", ".."} & set(key.split("/") if key else ()):
        raise ConfigError("expected a bucket and a plain prefix: s3://bucket/prefix", path=address)
    return ObjectStoreFolder(parts.scheme, parts.netloc, key, options_of(SCHEMES[parts.scheme], storage, environ))


def known_schemes() -> str:
    """Return the supported schemes of addresses, for use in a message."""
    return ", ".join(f"{scheme}://" for scheme in ("file", *SCHEMES))


def _in_one_line(text: str) -> str:
    """Return the reason of an error in one line, without its colours and XML."""
    if error := _XML_CODE.search(text):
        return f"{error[1]}: {error[2]}" if error[2] else error[1]
    return in_one_line(text)
