"""Interactions: requests and their responses, and the file that holds them, in vcrpy's format.

vcrpy's format is readable and known to other tools. Its recorder is not used: it replaces the classes of
`http.client` for the whole process, which the kit's connection pools do not use; it compares a request with
every recorded one; and it recognises secrets only by where they are.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct, field

from cdk.base.errors import ConfigError
from cdk.base.values import Json, JsonValue
from cdk.rest import Headers, Request, Response

_KEY = "spark-cdk"


class Interaction(Struct, frozen=True):
    """A request and its response. headers: those that the connector set. content: the body of the response."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    status: int
    response_headers: Mapping[str, str]
    content: bytes

    @property
    def endpoint(self) -> str:
        """The method, and the path of the URL."""
        return f"{self.method} {urlsplit(self.url).path}"

    def response(self, request: Request) -> Response:
        """Return the recorded response as the response to `request`."""
        return Response(self.status, Headers(self.response_headers), self.content, request.full_url, request)


class Recording(Struct, frozen=True):
    """The content of a cassette.

    config: the connector's, without its secrets. recorded_at: the time of the connector's clock; None if vcrpy itself
    recorded. sample: the most records of a page, where pages can be shortened; None: all.
    """

    interactions: Sequence[Interaction]
    config: Mapping[str, JsonValue] = field(default_factory=dict)
    recorded_at: datetime | None = None
    sample: int | None = None


def load(path: Path) -> Recording:
    """Load the recording from a file. Raises ConfigError: when it is missing or cannot be read."""
    return _load(path, path.stat().st_mtime_ns if path.exists() else 0)


# Cached, because a suite replays a cassette hundreds of times.
@lru_cache(maxsize=8)
def _load(path: Path, _changed: int) -> Recording:
    import yaml  # noqa: PLC0415 - as vcrpy, of which it is a dependency
    from vcr.persisters.filesystem import CassetteNotFoundError, FilesystemPersister  # noqa: PLC0415 - takes 50 ms
    from vcr.serializers import yamlserializer  # noqa: PLC0415

    try:
        requests, responses, *rest = FilesystemPersister.load_cassette(path, yamlserializer)
        metadata = rest[0].get(_KEY, {}) if rest else {}
        recorded_at = metadata.get("recorded_at")
        interactions = [_loaded(request, response) for request, response in zip(requests, responses, strict=True)]
        recorded_at = recorded_at and datetime.fromisoformat(recorded_at)
        return Recording(interactions, metadata.get("config", {}), recorded_at, metadata.get("sample"))
    except CassetteNotFoundError:
        text = "found no cassette there, or an empty file; `spark-cdk record --cassette FILE` writes one"
        raise ConfigError(text, path=str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError, OSError, yaml.YAMLError) as error:
        text = f"is not a cassette ({type(error).__name__}: {error}); record it again with `spark-cdk record`"
        raise ConfigError(text, path=str(path)) from error


def save(path: Path, recording: Recording) -> None:
    """Write a recording, already free of secrets, to a file. Raises ConfigError: when the file cannot be written."""
    from vcr.persisters.filesystem import FilesystemPersister  # noqa: PLC0415 - see above
    from vcr.request import Request as Recorded  # noqa: PLC0415
    from vcr.serializers import yamlserializer  # noqa: PLC0415

    recorded_at = None if recording.recorded_at is None else recording.recorded_at.isoformat()
    metadata: dict[str, Json] = {"config": dict(recording.config), "recorded_at": recorded_at}
    if recording.sample is not None:
        metadata["sample"] = recording.sample
    document = {
        "requests": [Recorded(each.method, each.url, each.body, dict(each.headers)) for each in recording.interactions],
        "responses": [_saved(each) for each in recording.interactions],
        "metadata": {_KEY: metadata},
    }
    try:
        FilesystemPersister.save_cassette(path, document, yamlserializer)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", path=str(path)) from error


def _saved(interaction: Interaction) -> Json:
    return {
        "status": {"code": interaction.status, "message": ""},
        "headers": {name: [value] for name, value in interaction.response_headers.items()},
        "body": {"string": interaction.content},
    }


def _loaded(request: Json, response: Json) -> Interaction:
    values = ((name, [each] if isinstance(each, str) else each) for name, each in response["headers"].items())
    return Interaction(
        request.method,
        request.uri,
        dict(request.headers),
        request.body,
        int(response["status"]["code"]),
        {name: ", ".join(each) for name, each in values},
        response["body"]["string"] or b"",
    )
