"""StatefulOptions: the user's options for runs that compare themselves with the state of earlier runs."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cdk.base.errors import ConfigError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.times.duration_field import DurationField
from cdk.base.validation_messages import refusals
from cdk.base.values import JsonValue, dotted
from cdk.state.log.session import Mode
from cdk.state.log.state_log import StateLog
from cdk.state.stores.key import StateKey
from cdk.state.stores.memory import MemoryStore
from cdk.state.stores.opening import open_store

_PATH = "stateful_ingestion"


class StatefulOptions(BaseModel):
    """The config block `stateful_ingestion`: DataHub's option names, and a few more. Frozen; refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    enabled: bool = False
    """Whether state is used at all. If false, the run sees, skips, removes and stores nothing."""
    ignore_old_state: bool = False
    """Compare with no earlier state, so that nothing is removed or skipped; known entities and ranges stay known.

    Same effect as `force_rerun`.
    """
    force_rerun: bool = False
    """Compare with no earlier state, so that nothing is removed or skipped; known entities and ranges stay known.

    Same effect as `ignore_old_state`.
    """
    ignore_new_state: bool = False
    """Read the state, but store nothing and remove nothing."""
    remove_stale_metadata: bool = True
    """Whether stale entities are removed; if false, they are only reported and stay known."""
    removal: Literal["soft", "hard"] = "soft"
    """Whether the sink flags entities as removed (soft) or deletes them (hard)."""
    fail_safe_threshold: Annotated[float, Field(ge=0, le=100)] = 75.0
    """Maximum percentage of a scope's known entities that one run may remove, inclusive; 100 allows any number."""
    fail_safe_min: Annotated[int, Field(ge=0)] = 5
    """Number of entities that a run may always remove: small scopes can lose half of theirs in a day."""
    grace_runs: Annotated[int, Field(ge=0)] = 0
    """Number of complete runs that an entity may be missing from before it is removed."""
    allow_empty: bool = False
    """Whether a scope that had entities may become empty."""
    accept_removals: str | None = None
    """Id of the removals that an earlier run refused; only exactly these are carried out."""
    bucket_duration: Literal["HOUR", "DAY", "WEEK"] = "DAY"
    """Size of the buckets that windows consist of."""
    settle: DurationField = timedelta()
    """How long after its end a bucket may still change."""
    on_gap: Literal["report", "fill"] = "report"
    """Whether the gap between the newest covered bucket and a request is only reported, or read as well."""
    max_fill: DurationField = timedelta(days=31)
    """How far before the request a gap is filled at most."""
    max_intervals: Annotated[int, Field(ge=1)] = 1000
    """Maximum number of intervals to store; the newest are kept."""
    state_provider: Mapping[str, JsonValue] | None = Field(None, repr=False)
    """The store of the log: `{type: ..., config: {...}}`, see `open_store`."""
    max_checkpoint_state_size: Annotated[int, Field(ge=1)] = 2**24
    """Maximum bytes of the canonical text of one slot's value."""

    @classmethod
    def parse(cls, block: Mapping[str, JsonValue], path: str = _PATH) -> "StatefulOptions":
        """Parse the options of a block. Raises ConfigError naming every invalid key, below `path`."""
        try:
            return cls.model_validate(block)
        except ValidationError as error:
            problems = refusals(
                error,
                dict(block),
                known=lambda _: cls.model_fields,
                secret=lambda keys: keys[:1] == ("state_provider",),
            )
            lines = [f"{f'{path}.{dotted(keys)}' if keys else path}: {text}" for keys, text in problems]
            raise ConfigError("\n".join(lines)) from None

    def mode(self, *, preview: bool = False) -> Mode:
        """Return the mode to open the run's session in. preview: the run stores nothing."""
        fresh = not self.enabled or self.ignore_old_state or self.force_rerun
        looks = not self.enabled or self.ignore_new_state or preview
        return Mode("ignore" if fresh else "latest", "none" if looks else "commit")

    def open_log(
        self, key: StateKey, *, preview: bool = False, clock: Clock = system_clock, secrets: Iterable[str] = ()
    ) -> StateLog:
        """Open the log of these options; an in-memory log if they are not enabled.

        secrets: strings that no record may contain. Raises ConfigError: when `state_provider` is missing or its store
        cannot be used.
        """
        if not self.enabled:
            return StateLog(MemoryStore(), key, clock=clock)
        if self.state_provider is None:
            raise ConfigError("is missing; configure the store of the state log", path=f"{_PATH}.state_provider")
        store = open_store(self.state_provider, writes=self.mode(preview=preview).write == "commit")
        size = self.max_checkpoint_state_size
        return StateLog(store, key, clock=clock, secrets=secrets, max_checkpoint_state_size=size)
