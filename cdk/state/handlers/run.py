"""StatefulRun: a run that compares itself with the state of earlier runs, as slot handlers see it, and its options."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cdk.base.errors import ConfigError
from cdk.base.times.clock import Clock, system_clock
from cdk.base.times.duration_field import DurationField
from cdk.base.validation_messages import refusals
from cdk.base.values import JsonValue, Stored, dotted
from cdk.state.log.retention import Retention
from cdk.state.log.session import Mode, StateSession, open_session
from cdk.state.log.slot_value import Kind
from cdk.state.log.state_log import StateLog
from cdk.state.stores.memory import MemoryStore
from cdk.state.stores.opening import open_store
from cdk.state.stores.protocol import StateKey

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


class StatefulRun(Struct, frozen=True):
    """A session with its log, its mode and the user's options. Made by `stateful_run`."""

    log: StateLog
    session: StateSession
    mode: Mode
    options: StatefulOptions

    @property
    def writes(self) -> bool:
        """Whether the run may change anything durable: the state, or entities in a sink."""
        return self.mode.write == "commit"

    @property
    def skip_reason(self) -> str:
        """Why this run may not remove anything; empty if it may."""
        if not self.options.enabled:
            return "stateful_ingestion.enabled is false"
        if self.mode.read == "ignore":
            return "the run ignores the saved state"
        return "" if self.options.remove_stale_metadata else "remove_stale_metadata is false"

    def shown(self, slot: str, kind: Kind) -> Stored:
        """Return the value of a slot that the run may compare with; None if there is none. Raises BadState."""
        return self.session.read(slot, kind)

    def newest_value(self, slot: str, kind: Kind) -> Stored:
        """Return a slot's value in the newest record, regardless of the mode: a run that ignores the state keeps it.

        Raises BadState.
        """
        if self.mode.read == "latest":
            return self.session.read(slot, kind)
        head = self.session.head
        if head is None or slot not in head.slots:
            return None
        return kind.read(self.log.value(head, slot), f"state of {self.log.key} {slot}")


@contextmanager
def stateful_run(
    log: StateLog,
    options: StatefulOptions,
    *,
    preview: bool = False,
    mode: Mode | None = None,
    run: Mapping[str, JsonValue] | None = None,
    retention: Retention | None = None,
) -> Iterator[StatefulRun]:
    """Open a run with these options. All values that it can see are read and checked before the block starts.

    preview: the run reports what it would do, but neither stores nor removes anything. mode: overrides the mode of the
    options, for example to rerun from an earlier record.
    Raises StateConflict: when another run holds the lease. BadState: when a value that the run can see is damaged.
    """
    mode = mode if mode is not None and options.enabled else options.mode(preview=preview)
    log = log if options.enabled else StateLog(MemoryStore(), log.key, clock=log.clock)
    with open_session(log, mode, run=run, retention=retention) as session:
        yield StatefulRun(log, session, mode, options)
