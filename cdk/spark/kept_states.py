"""The states that lie beside a table: a file for each version, which a commit to the table names.

A file alone says nothing: it counts once a commit has moved the table's marker to its version.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import orjson

from cdk.base.errors import BadState, ConfigError, StateError, TransientError
from cdk.base.values import Json, from_json, to_json
from cdk.spark.files import DataFile
from cdk.spark.place import Place
from cdk.spark.saved import Saved

_FORMAT = "spark-cdk/1"


class KeptStates:
    """The states of one stream of one pipeline, in the folder `place`."""

    def __init__(self, place: Place, stream: str) -> None:
        self._place = place
        self._stream = stream

    def write(self, version: int, saved: Saved) -> None:
        """Put a state beside the table, as a draft until a commit names it."""
        # `asdict` would copy the whole state; orjson writes the files by itself.
        content = to_json({"format": _FORMAT, "stream": self._stream, **vars(saved)})
        self._place.write(f"{version}.json", content)

    def load(self, version: int) -> Saved:
        """The state of a version that is kept. Raises StateError: its file is gone, or is none of ours."""
        name = f"{version}.json"
        path = f"{self._place}/{name}"
        try:
            blob = from_json(self._place.read(name))
        except FileNotFoundError:
            raise StateError(
                f"the table stands at state {version}, and this file is missing; bring it back, or move the table "
                "away to read the stream from its start; `spark-cdk state reset` does so and keeps the rows",
                path=path,
                stream=self._stream,
            ) from None
        except (OSError, orjson.JSONDecodeError) as error:
            raise BadState(path, str(error), "the JSON an earlier run wrote", stream=self._stream) from error
        if not isinstance(blob, dict) or blob.pop("format", None) != _FORMAT:
            raise BadState(path, blob, f'a state of the format "{_FORMAT}"', stream=self._stream)
        try:
            blob.pop("stream")
            pending, logged = (_files(blob.pop(name)) for name in ("pending", "logged"))
            return Saved(
                **{**blob, "history": tuple(blob["history"]), "newest": tuple(blob.get("newest", ()))},
                pending=pending or (),
                logged=logged,
            )
        except (KeyError, TypeError) as error:
            raise BadState(path, blob, "the fields an earlier run wrote", stream=self._stream) from error

    @property
    def versions(self) -> list[int]:
        """The versions whose files are there, drafts among them, in any order."""
        return [version for version, name in self._named() if name.endswith(".json")]

    def remove(self, spare: Callable[[int], bool]) -> None:
        """Remove the states whose version is spare; those that a store does not remove now stay for another time."""
        with suppress(ConfigError, TransientError):
            for version, name in list(self._named()):
                if spare(version):
                    self._place.delete(name)

    def _named(self) -> Iterator[tuple[int, str]]:
        """The files of states by their versions, and what a write that was cut has left of one."""
        for name in self._place.names():
            path = Path(name)
            if path.stem.isdecimal() and path.suffix in {".json", ".tmp"}:
                yield int(path.stem), name


def _files(blob: Json) -> tuple[DataFile, ...] | None:
    return None if blob is None else tuple(DataFile(**file) for file in blob)
