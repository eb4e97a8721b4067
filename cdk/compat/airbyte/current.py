"""What custom code shares with the source it belongs to, where no argument brings it along."""

from dataclasses import dataclass, field

from cdk.declarative.model.context import Runtime


@dataclass(slots=True)
class Current:
    """The runtime of the source that was built last: objects that custom code makes itself send through it."""

    runtime: Runtime = field(default_factory=Runtime)


current = Current()
