"""FileUploader: downloads a file for each record into a folder where the destination finds it."""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TypeAlias
from uuid import NAMESPACE_URL, uuid5

from msgspec.structs import replace

from cdk.base.errors import FatalError
from cdk.base.values import JsonObject, to_json
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext, Expression, Names
from cdk.declarative.model.request_plug_points import AnyExtractor, AnyRequester, Requester
from cdk.declarative.model.slice_names import slice_names, view
from cdk.declarative.model.stream_plug_points import Router, SliceReader
from cdk.rest import Headers, JsonDocument, Request, Response
from cdk.rest.records.extractor import Extractor
from cdk.state.slice import Slice
from cdk.streams.page import Item, records_in

_Record: TypeAlias = JsonObject

_LONGEST_NAME = 200
# Where Airbyte's platform mounts the folder that the source and the destination share.
_SHARED = "/staging/files"


class FileUploader(Component):
    """Downloads a file for each record, and adds its location to the record.

    The record gets `file_reference`: `staging_file_url` (the path of the file), `source_file_relative_path` (the path
    relative to the staging folder) and `file_size_bytes`. A record without a download target has no file.

    Example:
        type: FileUploader
        requester: {type: HttpRequester, url: "{{ download_target }}"}
        download_target_extractor: {type: DpathExtractor, field_path: [content_url]}
        filename_extractor: "{{ record.id }}/{{ record.file_name }}"
    """

    requester: AnyRequester
    """Requests the file; its expressions read the `record` and its `download_target`."""
    download_target_extractor: AnyExtractor
    """Extracts the download target from the record; the first value is used."""
    file_extractor: AnyExtractor | None = None
    """Extracts the content of the file from a JSON response; by default the response body is the file."""
    filename_extractor: str | None = None
    """Path of the file in the stream's folder; a suffix is added if another record's file has the same path. By default
    a name derived from the record.
    """

    def uploading_reader(self, ctx: BuildContext, reader: SliceReader) -> SliceReader:
        """Return a reader of the same slices that also downloads the files."""
        return _Reader(self.build(ctx), ctx, reader)

    def build(self, ctx: BuildContext) -> Callable[[_Record, Names], None]:
        """Return the function that downloads a record's file and adds its location. The names are those of the slice.

        That function raises FatalError: when the file cannot be written.
        """
        content = None if self.file_extractor is None else self.file_extractor.build(ctx, JsonDocument())
        return _Upload(
            ctx.runtime.staging or staging_folder(),
            ctx.stream,
            requester=self.requester.build(ctx),
            target=self.download_target_extractor.build(ctx, JsonDocument()),
            name=ctx.expression(self, "filename_extractor") if self.filename_extractor else None,
            content=content,
        )


def staging_folder() -> Path:
    """Return the folder for files: the one shared with the destination if it exists, else one for temporary files."""
    shared = Path(os.environ.get("AIRBYTE_STAGING_DIRECTORY", _SHARED))
    from tempfile import gettempdir  # noqa: PLC0415 - few manifests upload files

    return shared if shared.is_dir() else Path(gettempdir()) / "airbyte-file-transfer"


class _Reader:
    """A SliceReader that adds files to its records."""

    def __init__(self, upload: Callable[[_Record, Names], None], ctx: BuildContext, inner: SliceReader) -> None:
        self._upload, self._window, self._inner = upload, ctx.window, inner
        self.router: Router | None = inner.router
        self.token_key = inner.token_key

    def read(self, slice: Slice) -> Iterator[Item]:
        """Yield each page once all of its files are there."""
        names = slice_names(view(slice, self._window))
        for item in self._inner.read(slice):
            for record in records_in([item]):
                self._upload(record, names)  # type: ignore[arg-type] # a retriever yields dicts of its own
            yield item


class _Upload:
    """Downloads the file of a record."""

    def __init__(
        self,
        folder: Path,
        stream: str,
        *,
        requester: Requester,
        target: Extractor,
        name: Expression | None,
        content: Extractor | None,
    ) -> None:
        self._folder, self._stream = folder, safe_parts(stream) or ["stream"]
        self._requester, self._target, self._name, self._content = requester, target, name, content
        self._owners: dict[Path, str] = {}

    def __call__(self, record: _Record, names: Names) -> None:
        written = to_json(record, str)
        request = Request("GET", self._stream[0])
        answer = Response(200, Headers(), written, request.url, request)
        target = next(chain.from_iterable(self._target.values(answer)), None)
        if target is None or target == "":
            return
        names = {**names, "record": record, "download_target": target, "next_page_token": None}
        request = self._requester.draft(names).request()
        response = self._requester.client.send(replace(request, stream=self._content is None))
        if not response.ok:
            return
        # The name is derived from the record, so a repeated read puts the file in the same place.
        unique = str(uuid5(NAMESPACE_URL, written.decode()))
        parts = [] if self._name is None else safe_parts(self._name.text(names))
        path = Path(*self._stream, *(parts or [unique]))
        # Never replace the file of another record, which refers to it and states its size.
        if self._owners.setdefault(path, unique) != unique:
            path = path.with_name(f"{path.stem}-{unique}{path.suffix}")
        size = self._write(path, response, unique)
        record["file_reference"] = {
            "staging_file_url": str(self._folder / path),
            "source_file_relative_path": path.as_posix(),
            "file_size_bytes": size,
        }

    def _write(self, path: Path, response: Response, unique: str) -> int:
        """Write a file and return its size. A file of the same name is replaced once the new one is complete."""
        folder = self._folder.resolve()
        target = folder / path
        if not target.resolve().is_relative_to(folder):
            raise FatalError(f"the file {str(path)!r} would be outside of {folder}; check `filename_extractor`")
        part = target.with_name(f".{unique}.part")
        try:
            # The folder shared with the destination exists already. One created here is private to this user.
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with part.open("wb") as file, closing(self._chunks(response)) as chunks:
                    size = sum(file.write(chunk) for chunk in chunks)
                part.replace(target)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise FatalError(f"the file {str(path)!r} cannot be written into {folder}: {error.strerror}") from error
        return size

    def _chunks(self, response: Response) -> Generator[bytes, None, None]:
        if self._content is None:
            return response.chunks()
        values = chain.from_iterable(self._content.values(response))
        return (value.encode() if isinstance(value, str) else to_json(value, str) for value in values)


def safe_parts(name: str) -> list[str]:
    """Return the parts of a file's path; no part leads out of its folder or is too long."""
    parts = name.replace("\\", "/").replace("\0", "").split("/")
    return [_accepted_name(part) for part in parts if part.strip() not in {"", ".", ".."}]


def _accepted_name(part: str) -> str:
    """Return a name that file systems accept, with its extension."""
    if len(part.encode()) <= _LONGEST_NAME:
        return part
    stem, dot, extension = part.rpartition(".")
    ending = f"{dot}{extension}" if stem and len(extension) < 20 else ""  # noqa: PLR2004 - a longer one is no extension
    head = (stem if ending else part).encode()[: _LONGEST_NAME - len(ending.encode())]
    return head.decode(errors="ignore") + ending
