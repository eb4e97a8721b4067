"""ConditionalState: the validators of a followed source's responses, stored in the state of the table with their rows.

They are committed with the rows, so a sync that is interrupted before stores nothing, and the next one requests the
rows again. The value in `TableState.source`:

    {"kind": ..., "version": ..., "value": ..., "after": ..., "selection": ..., "earlier": ...}

kind, version and value are those of `cdk/http-validators`, for the responses that the rows came from. They count only
if the newest state before this one is `after`: another writer of states, such as a person or a sync that does not
follow the source, preserves the value, which then says nothing about the rows any more. selection: digest of everything
else that decides about the rows. earlier: in an interrupted read of several slices, the previous validators of the
requests that are still to be made.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.errors import BadState, StateTooLarge
from cdk.base.values import JsonValue, canonical, to_json
from cdk.lake.delta.table_state import TableState
from cdk.state.log.slot_value import StateValue
from cdk.state.source_state.http_validators import HttpSnapshot
from cdk.state.source_state.validators import KIND, Validators, requests_of, to_value
from cdk.sync.settings.pipeline_file import FollowSourceOptions
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tables.stale_removal import RemovalRequest
from cdk.sync.tasks.messages import SliceResult

_SHOWN = len("sha256:") + 8
"""Number of characters of a fingerprint to show, enough to tell two requests apart."""


class FollowSettings(Struct, frozen=True):
    """How one stream is followed in one sync.

    config: the connector's config as text, secrets masked. code: digest of the code that turns responses into records.
    now: start of the sync. most: maximum bytes of the source state in the table.
    """

    options: FollowSourceOptions
    config: str
    code: str
    now: datetime
    most: int


class ReadCondition:
    """The condition of a stream that is not followed: nothing is known of its source, and everything is read.

    Base of `ConditionalState`.
    """

    conditional = False
    """Whether only what has changed is read."""
    single_slice = False
    """Whether the stream must have only one slice, because rows of unchanged slices would be removed from the table."""
    snapshot: HttpSnapshot | None = None
    """The validators with which tasks make their requests conditional."""

    @property
    def moved(self) -> bool:
        """Whether an unchanged source has returned new validators."""
        return False

    def add_result(self, progress: SliceResult) -> None:
        """Record the request and response of a slice."""

    def waits(self, *, finished: bool) -> bool:  # noqa: ARG002 - `ConditionalState` uses it
        """Whether there is nothing to commit so far, because nothing that was requested has changed."""
        return False

    def with_source_state(self, saved: TableState, after: int | None, *, finished: bool) -> TableState:  # noqa: ARG002
        """Return the state with its source state. after: version of the previous state. finished: all was read.

        Raises StateTooLarge.
        """
        return saved


class ConditionalState(ReadCondition):
    """The responses of a followed source to one stream in one sync. Belongs to the driver's thread."""

    conditional = True

    def __init__(
        self,
        plan: StreamPlan,
        followed: FollowSettings,
        before: TableState | None,
        *,
        resumed: bool,
        removal: RemovalRequest | None,
    ) -> None:
        """before: the table's saved state. resumed: this sync resumes its generation.

        Raises BadState: when the saved source state is of another kind or damaged.
        """
        self._stream, self._most, self._resumed = plan.stream.name, followed.most, resumed
        self.single_slice = removal is not None or plan.traits.hidden_until_complete
        self._changed, self._ended = False, 0
        self._selection = _selection(plan, followed, removal)
        self._requested: dict[str, Validators | None] = {}
        self._earlier: Mapping[str, Validators] = {}
        if before is not None and before.source is not None:
            value, earlier = self._read(before)
            if resumed:
                # Slices of this generation were requested already. If one is requested again, a person has reset it.
                self._requested, self._earlier = dict(value), earlier
            elif before.complete:
                self._earlier = value
        options = followed.options
        self.snapshot = HttpSnapshot(self._earlier, followed.now, options.max_validator_age, options.uncacheable)

    def add_result(self, progress: SliceResult) -> None:
        if progress.failure is not None or not progress.done:
            return
        result = progress.conditional
        self._ended += 1
        self._changed |= result is None or not result.unchanged
        if result is not None and result.request is not None:
            self._requested[result.request] = result.validators

    def waits(self, *, finished: bool) -> bool:
        return not (self._resumed or self._changed or (finished and not self._ended))

    @property
    def moved(self) -> bool:
        return self._known != self._earlier

    def with_source_state(self, saved: TableState, after: int | None, *, finished: bool) -> TableState:
        value = to_value(self._known)
        document: dict[str, JsonValue] = {
            "kind": value.kind,
            "version": value.version,
            "value": value.value,
            "after": after,
            "selection": self._selection,
        }
        earlier = {request: known for request, known in self._earlier.items() if request not in self._requested}
        if not (finished or self.single_slice) and earlier:
            document["earlier"] = to_value(earlier).value
        if (size := len(to_json(document))) > self._most:
            raise StateTooLarge(
                f"the validators of {len(self._requested):,} requests need {size:,} bytes, expected at most "
                f"{self._most:,}; leave follow_source out, or raise state.max_checkpoint_state_size",
                stream=self._stream,
            )
        return replace(saved, source=document)

    @property
    def _known(self) -> Mapping[str, Validators]:
        return {request: known for request, known in self._requested.items() if known is not None}

    def _read(self, before: TableState) -> tuple[Mapping[str, Validators], Mapping[str, Validators]]:
        """Return the validators of this generation's requests and of the others; both empty if they do not count."""
        path, parts = f"source of {self._stream}", _parts(before.source, self._stream)
        value = requests_of(parts, path)
        source = before.source or {}
        earlier = source.get("earlier")
        others = {} if earlier is None else requests_of(StateValue(parts.kind, parts.version, earlier), path)
        newest = before.history[0] if before.history else None
        if source.get("after") != newest or source.get("selection") != self._selection:
            return {}, {}
        return value, others


def foreign_source_state(before: TableState | None) -> Mapping[str, JsonValue] | None:
    """Return the source state that a sync without `follow_source` keeps unchanged: one of an unknown kind, or None."""
    source = None if before is None else before.source
    return None if source is not None and source.get("kind") == KIND.name else source


def about_source(source: JsonValue) -> Iterator[str]:
    """Describe a source state for people, one line per request; for an unknown form, only its kind."""
    if source is None:
        return
    try:
        known = requests_of(_parts(source, ""), "source")
    except BadState:
        kind = source.get("kind") if isinstance(source, Mapping) else None
        yield f"source: {kind or 'a state'} that this version does not understand"
        return
    for request, validators in known.items():
        validator = validators.etag or validators.last_modified or "no validator"
        yield f"source {request[:_SHOWN]}: {validator}, read at {validators.read_at or 'an unknown time'}"


def _parts(source: JsonValue, stream: str) -> StateValue:
    match source:
        case {"kind": str(kind), "version": int(version), "value": value}:
            return StateValue(kind, version, value)
        case _:
            raise BadState(f"source of {stream}", source, "an object with kind, version and value", stream=stream)


def _selection(plan: StreamPlan, followed: FollowSettings, removal: RemovalRequest | None) -> str:
    """Return a digest of everything besides the responses that decides which rows the table gets."""
    stream = plan.stream
    modes = [plan.sync_mode, plan.write_mode, plan.policy.value, plan.hard_deletes]
    leaves = None if removal is None else removal.options.model_dump(mode="json")
    text = canonical([modes, leaves, stream.key_paths, stream.json_schema(), followed.config, followed.code])
    return f"sha256:{sha256(text.encode()).hexdigest()}"
