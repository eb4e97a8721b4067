"""ConditionalState: what a followed source said of its answers, in the state of the table that has their rows.

It is committed with the rows, so a sync that is cut before remembers nothing and asks for them again. The value in
`TableState.source`:

    {"kind": ..., "version": ..., "value": ..., "after": ..., "selection": ..., "earlier": ...}

kind, version and value are those of `cdk/http-validators`, of the answers that the rows came from. It counts only where
the newest state before its own is `after`: another writer of a state, such as a person or a sync that does not
follow, carries the value along, and it says nothing of the rows any more. selection: a digest of what else decides
about the rows. earlier: of a read of several slices that was cut, what those had said that are still to be asked.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

from cdk.base.errors import BadState, StateTooLarge
from cdk.base.values import JsonValue, canonical, to_json
from cdk.lake.delta.table_state import TableState
from cdk.state.log.slot_value import StateValue
from cdk.state.source_state.http_validators import HttpSnapshot
from cdk.state.source_state.validators import KIND, Validators, requests_of, to_value
from cdk.sync.loop.stale_removal import RemovalRequest
from cdk.sync.settings.pipeline_file import FollowSourceOptions
from cdk.sync.settings.stream_plan import StreamPlan
from cdk.sync.tasks.messages import SliceResult

_SHOWN = len("sha256:") + 8
"""As much of a fingerprint as people need to tell two requests apart."""


@dataclass(frozen=True)
class FollowSettings:
    """How one stream is followed in one sync.

    config: the connector's config as text, secrets masked. code: a digest of what makes records of answers. now: when
    the sync began. most: bytes that the table may remember of the source.
    """

    options: FollowSourceOptions
    config: str
    code: str
    now: datetime
    most: int


class ReadCondition:
    """What is known of a source that is not asked whether it has changed: nothing, and all that is read counts."""

    conditional = False
    """Only what has changed is read."""
    single_slice = False
    """The stream must be one slice, for rows that it does not read again would leave the table."""
    snapshot: HttpSnapshot | None = None
    """What tasks ask the source with."""

    @property
    def moved(self) -> bool:
        """Whether a source that has not changed said something new of itself."""
        return False

    def add_result(self, progress: SliceResult) -> None:
        """Learn what a slice asked."""

    def waits(self, *, finished: bool) -> bool:  # noqa: ARG002 - of those that ask
        """Whether there is nothing to commit so far, for all that was asked has not changed."""
        return False

    def described(self, saved: TableState, after: int | None, *, finished: bool) -> TableState:  # noqa: ARG002
        """The state with what is known of its source. after: the version of the state before. finished: all was read.

        Raises StateTooLarge.
        """
        return saved


class ConditionalState(ReadCondition):
    """What the source answered one stream in one sync. Belongs to the driver's thread."""

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
        """before: what the table remembers. resumed: this sync goes on with its generation.

        Raises BadState: what is remembered of the source is of another kind, or damaged.
        """
        self._stream, self._most, self._resumed = plan.stream.name, followed.most, resumed
        self.single_slice = removal is not None or plan.traits.hidden_until_complete
        self._changed, self._ended = False, 0
        self._selection = _selection(plan, followed, removal)
        self._asked: dict[str, Validators | None] = {}
        self._earlier: Mapping[str, Validators] = {}
        if before is not None and before.source is not None:
            value, earlier = self._read(before)
            if resumed:
                # Slices that this generation has were asked already; one that is asked again, a person wants anew.
                self._asked, self._earlier = dict(value), earlier
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
            self._asked[result.request] = result.validators

    def waits(self, *, finished: bool) -> bool:
        return not (self._resumed or self._changed or (finished and not self._ended))

    @property
    def moved(self) -> bool:
        return self._known != self._earlier

    def described(self, saved: TableState, after: int | None, *, finished: bool) -> TableState:
        value = to_value(self._known)
        document: dict[str, JsonValue] = {
            "kind": value.kind,
            "version": value.version,
            "value": value.value,
            "after": after,
            "selection": self._selection,
        }
        earlier = {request: known for request, known in self._earlier.items() if request not in self._asked}
        if not (finished or self.single_slice) and earlier:
            document["earlier"] = to_value(earlier).value
        if (size := len(to_json(document))) > self._most:
            raise StateTooLarge(
                f"the validators of {len(self._asked):,} requests need {size:,} bytes, the limit is {self._most:,}; "
                "leave follow_source out, or raise state.max_checkpoint_state_size",
                stream=self._stream,
            )
        return replace(saved, source=document)

    @property
    def _known(self) -> Mapping[str, Validators]:
        return {request: known for request, known in self._asked.items() if known is not None}

    def _read(self, before: TableState) -> tuple[Mapping[str, Validators], Mapping[str, Validators]]:
        """What is known of this generation's requests and of the others; nothing of either where it does not count."""
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
    """What a sync that does not follow keeps of a source: what is of a kind that is not known here, untouched."""
    source = None if before is None else before.source
    return None if source is not None and source.get("kind") == KIND.name else source


def about_source(source: JsonValue) -> Iterator[str]:
    """What a state knows of its source, a line for each request, for people; of what is not understood, its kind."""
    if source is None:
        return
    try:
        known = requests_of(_parts(source, ""), "source")
    except BadState:
        kind = source.get("kind") if isinstance(source, Mapping) else None
        yield f"source: {kind or 'something'} that is not understood here"
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
    """A digest of what decides, besides the answers, which rows the table gets of them."""
    stream = plan.stream
    modes = [plan.sync_mode, plan.write_mode, plan.policy.value, plan.hard_deletes]
    leaves = None if removal is None else removal.options.model_dump(mode="json")
    text = canonical([modes, leaves, stream.key_paths, stream.json_schema(), followed.config, followed.code])
    return f"sha256:{sha256(text.encode()).hexdigest()}"
