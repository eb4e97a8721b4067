"""StatefulOptions: what a person may say of a run that compares itself with the last one."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cdk.base.errors import ConfigError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.times.durations import Duration
from cdk.base.validation_messages import refusals
from cdk.base.values import JsonValue, dotted
from cdk.state.log.session import Mode
from cdk.state.log.state_log import StateLog
from cdk.state.stores.key import StateKey
from cdk.state.stores.memory import MemoryStore
from cdk.state.stores.opening import open_store

_PATH = "stateful_ingestion"


class StatefulOptions(BaseModel):
    """The block `stateful_ingestion`: the names people know, and a few more. Frozen; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = False
    """Without it nothing is seen, skipped, removed or stored."""
    ignore_old_state: bool = False
    """The run compares with nothing, so nothing is removed and nothing is skipped; what was known stays known.

    Two names of one thing.
    """
    force_rerun: bool = False
    """The run compares with nothing, so nothing is removed and nothing is skipped; what was known stays known.

    Two names of one thing.
    """
    ignore_new_state: bool = False
    """The run sees the state and stores nothing; nothing is removed."""
    remove_stale_metadata: bool = True
    """Whether stale entities are removed; otherwise they are reported, and stay known."""
    removal: Literal["soft", "hard"] = "soft"
    """Whether the sink is asked for soft or hard deletes."""
    fail_safe_threshold: Annotated[float, Field(ge=0, le=100)] = 75.0
    """Percent of a scope's known entities that one run may remove; exactly as many pass; 100: any."""
    fail_safe_min: Annotated[int, Field(ge=0)] = 5
    """As many may go whatever the percentage; small scopes lose half of theirs in a day."""
    grace_runs: Annotated[int, Field(ge=0)] = 0
    """Complete runs that an entity may be missing from before it is removed."""
    allow_empty: bool = False
    """A scope that had entities may have none."""
    accept_removals: str | None = None
    """The plan that an earlier run refused, by the id it gave; only this one is carried out."""
    bucket_duration: Literal["HOUR", "DAY", "WEEK"] = "DAY"
    """What windows are made of."""
    settle: Duration = timedelta()
    """How long after its end a bucket may still change."""
    on_gap: Literal["report", "fill"] = "report"
    """Whether what lies between the newest covered bucket and a request is only reported, or read as well."""
    max_fill: Duration = timedelta(days=31)
    """How far before the request a gap is filled."""
    max_intervals: Annotated[int, Field(ge=1)] = 1000
    """How many intervals are remembered."""
    state_provider: Mapping[str, JsonValue] | None = Field(None, repr=False)
    """Where the log lies, and how large a slot may be; see `open_log`."""
    max_checkpoint_state_size: Annotated[int, Field(ge=1)] = 2**24
    """Where the log lies, and how large a slot may be; see `open_log`."""

    @classmethod
    def parse(cls, block: Mapping[str, JsonValue], path: str = _PATH) -> "StatefulOptions":
        """The options of a block. Raises ConfigError naming every key that is wrong, below `path`."""
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
        """How the run is opened. preview: it shows what would be done."""
        fresh = not self.enabled or self.ignore_old_state or self.force_rerun
        looks = not self.enabled or self.ignore_new_state or preview
        return Mode("ignore" if fresh else "latest", "none" if looks else "commit")

    def open_log(
        self, key: StateKey, *, preview: bool = False, clock: Clock = system_clock, secrets: Iterable[str] = ()
    ) -> StateLog:
        """The log of these options; one in memory when they are not enabled.

        secrets: texts that no record may contain. Raises ConfigError: no `state_provider`, or a store that cannot be
        used.
        """
        if not self.enabled:
            return StateLog(MemoryStore(), key, clock=clock)
        if self.state_provider is None:
            raise ConfigError("is missing; say where the state is kept", path=f"{_PATH}.state_provider")
        store = open_store(self.state_provider, writes=self.mode(preview=preview).write == "commit")
        size = self.max_checkpoint_state_size
        return StateLog(store, key, clock=clock, secrets=secrets, max_checkpoint_state_size=size)
