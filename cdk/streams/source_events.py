"""Events: what a source reports to its runner besides records and states."""

from collections.abc import Mapping

from cdk.base.values import JsonValue


class Events:
    """Receives the events of a source, from any thread. This one ignores them; a runner sets its own."""

    def learned(self, secret: str) -> None:
        """The source received a secret that is not in the config, such as an access token: mask it from now on."""

    def config_changed(self, config: Mapping[str, JsonValue]) -> None:
        """The source changed its config, by a migration or a rotated token: save the whole of it.

        Returns once the config is stored safely; only then does the source use it.
        """

    def waiting(self, stream: str, seconds: float) -> None:
        """A stream pauses for so many seconds because the API asked for it."""
