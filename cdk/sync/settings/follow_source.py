"""Which streams can be followed: those whose requests can be made conditional."""

from cdk.base.errors import ConfigError
from cdk.declarative.reading.manifest_stream import ManifestStream
from cdk.rest.conditional_requests import picklable
from cdk.rest.http_stream import HttpStream
from cdk.streams.stream import Stream


def as_conditional(stream: Stream, where: str) -> Stream:
    """The stream as tasks can follow it. where: the setting that asks for it, for errors.

    Raises ConfigError: its requests cannot be made conditional.
    """
    if isinstance(stream, ManifestStream):
        return stream
    if not isinstance(stream, HttpStream):
        raise ConfigError(
            f"{where}: found a {type(stream).__name__}, expected an HttpStream or a stream of a manifest, "
            "whose requests go through the kit; leave it out"
        )
    if stream.http_method != "GET":
        raise ConfigError(
            f"{where}: the stream sends {stream.http_method}; only a GET can be conditional. Leave it out"
        )
    return picklable(stream)
