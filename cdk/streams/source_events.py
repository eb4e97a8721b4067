"""Events: what a source tells its runner, besides records and states."""

from collections.abc import Mapping

from cdk.base.values import JsonValue


class Events:
    """Hears what a source has to tell. This one does nothing; a runner gives its own. Called from any thread."""

    def learned(self, secret: str) -> None:
        """A secret that is not in the config, such as an access token: hide it from now on."""

    def config_changed(self, config: Mapping[str, JsonValue]) -> None:
        """The whole config as it is to be kept: an old one in today's form, or one with a rotated token.

        Returns once it is safe; the source then begins to use it.
        """

    def waiting(self, stream: str, seconds: float) -> None:
        """The API asked for a pause, which a stream takes."""
