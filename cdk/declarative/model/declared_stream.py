"""DeclaredStream: what the source of a manifest knows of each of its streams."""

from collections.abc import Callable

from cdk.base.errors import ManifestError
from cdk.streams.stream import Stream


class DeclaredStream(Stream):
    """A stream that a manifest declares."""

    template: str = ""
    """The name of the template that it was made of; empty for a stream that is written out."""

    reload: Callable[[], Stream] | None = None
    """Rebuilds it in another process: the manifest and the config travel, not what was built of them."""

    def locate(self, located: Callable[[ManifestError], ManifestError]) -> None:
        """Let an error that stands for the stream name its place. located: the error with its place in the manifest."""
