"""SliceSchedule: decides which slices of a stream are read next, and tracks the state that results from them."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from heapq import heappop, heappush

from cdk.base.errors import ConfigError, CredentialsError
from cdk.base.logs import logger
from cdk.base.values import JsonValue, Location
from cdk.lake.delta.receipt import Receipt
from cdk.rest.auth.tokens import EndedToken
from cdk.state.slice import Slice
from cdk.state.wire import encode, state_of
from cdk.streams.checkpoint.reader import CheckpointReader
from cdk.streams.stream import Stream
from cdk.sync.tasks.messages import Failure, SliceResult

_MOST_WASTED_TOKENS = 3
"""Consecutive access tokens without progress after which a stream fails: a single one may be revoked by chance."""


class SliceSchedule:
    """The slices of one attempt to read a stream from a state. Belongs to the driver's thread."""

    def __init__(
        self,
        stream: Stream,
        state: JsonValue,
        *,
        single: bool,
        check: Callable[[str], None],
        compares_first: bool = False,
        refreshes: bool = False,
    ) -> None:
        """single: the stream must have only one slice. check: called with a text if the state does not fit the source.

        compares_first: compare the partitions' fields with those in the state before planning any slice. refreshes:
        this is a full refresh, so the state is that of an interrupted one.
        Raises BadState.
        """
        self._stream, self._single, self._check = stream, single, check
        self._compares_first = compares_first
        self._state = state_of(stream, state)
        self._reader: CheckpointReader = stream.checkpoint_reader(self._state)
        if refreshes:
            self._reader.skip_finished()
        self._waiting: list[tuple[int, Slice]] = []
        self._out: dict[int, tuple[int, Slice]] = {}
        """Slices that are handed out, by identity: the index in the plan, and the slice's unread remainder."""
        self.all_planned = False
        """Whether planning is at its end."""
        self.planned = 0
        """Number of slices that were handed out at least once."""
        self.reading = 0
        """Number of slices that are handed out now."""
        self.counts = Receipt()
        """Records counted by the slices since the last commit, independent of the counts on the way to the table."""
        self.restarted = False
        """Whether the source refused the page token of a slice, which was then read again from its start."""
        self._wasted_tokens: dict[str, EndedToken] = {}
        """Consecutive access tokens that ended without progress of any slice, by their marks."""
        self.final_failure: Failure | None = None
        """The failure of a slice that can never be read; the state keeps that slice open."""

    def next(self) -> Slice | None:
        """Return the next slice to hand out; None if there is none for now.

        Raises ConfigError: when there is a second slice but only one is allowed. Also raises what planning raises;
        nothing more is planned then.
        """
        if self._waiting:
            return self._hand_out(*heappop(self._waiting))
        if self.all_planned:
            return None
        self.all_planned = True
        if self._compares_first:
            self._reader.compare_fields()
        slice = self._reader.next()
        if mismatch := self._reader.mismatch:
            self._check(mismatch)
        if slice is None:
            return None
        if self._single and self.planned:
            raise ConfigError(
                "found several slices, expected one: if only some of them have changed, the rows of the others would "
                "be removed from the table. Leave follow_source out, or write with append or append_dedup and without "
                "remove_stale",
                path=Location(keys=("streams", self._stream.name, "follow_source")),
            )
        self.all_planned = False
        self.planned += 1
        return self._hand_out(self.planned, slice)

    def _hand_out(self, index: int, slice: Slice) -> Slice:
        """Hand out a slice. index: its position in the plan; waiting slices are handed out in this order."""
        self.reading += 1
        self._out[id(slice)] = (index, slice)
        return slice

    def plan_ahead(self, slices: int) -> None:
        """Plan up to `slices` slices, which then wait to be handed out. Raises what `next` raises."""
        ahead = [slice for _ in range(slices) if (slice := self.next()) is not None]
        for slice in ahead:
            self.put_back(slice)

    def put_back(self, slice: Slice) -> None:
        """Take back a slice that was handed out; its unread remainder waits to be handed out again."""
        self.reading -= 1
        heappush(self._waiting, self._out.pop(id(slice)))

    def add_result(self, slice: Slice, progress: SliceResult, *, unfinished: bool = False) -> Failure | None:
        """Process how far a slice got. Return its failure, if any; a failed slice is not handed out again.

        unfinished: the slice is still handed out, and its next result continues after this one.
        """
        failure = progress.failure
        self.restarted |= progress.restarted
        for position in progress.positions:
            self._reader.observe(slice, position, progress.edge)
        if (last := progress.last) is not None:
            self.counts += Receipt(progress.read, progress.skipped, progress.rejected)
            self._wasted_tokens.clear()
            if not progress.done:
                self._out[id(slice)] = (self._out[id(slice)][0], self._reader.resume(slice, last, progress.edge))
        elif progress.wasted_token is not None:
            self._wasted_tokens[progress.wasted_token.digest] = progress.wasted_token
            if len(self._wasted_tokens) >= _MOST_WASTED_TOKENS:
                failure = Failure.of(_tokens_too_short(slice, [*self._wasted_tokens.values()]))
        if failure is not None and failure.final:
            self.final_failure = self.final_failure or failure
        if unfinished:
            return failure
        if failure is None and not progress.done:
            self.put_back(slice)
        else:
            self.reading -= 1
            del self._out[id(slice)]
        return failure

    @property
    def idle(self) -> bool:
        """Whether no slice is handed out or waiting."""
        return not self.reading and not self._waiting

    def plan_end(self) -> bool:
        """Whether everything has been read. If no slice is handed out or waiting, plan one more to find out.

        Raises what `next` raises.
        """
        # Only the reader knows whether anything is left to plan. If it returns a slice, that one waits.
        if self.idle:
            self.all_planned = False
            self.plan_ahead(1)
        return self.all_planned and self.idle

    def forget_missing(self, after: timedelta) -> None:
        """Forget the positions of partitions that have been missing from the source for at least `after`."""
        if count := self._reader.forget_missing(self._stream.now().replace(microsecond=0), after):
            text = "%s: removed %d partitions from its state that the source no longer has"
            logger.info(text, self._stream.name, count)

    def state(self) -> JsonValue:
        """Return the state that covers everything read so far, in its exact wire form."""
        self._state = self._reader.get_checkpoint() or self._state
        return encode(self._state, incremental=self._stream.incremental, exact=True)


def _tokens_too_short(slice: Slice, tokens: Sequence[EndedToken]) -> CredentialsError:
    lasted = ", ".join(f"{token.lasted_seconds:.0f}" for token in tokens)
    return CredentialsError(
        f"{slice}: found {len(tokens)} access tokens in a row that expired, or that the API refused, after {lasted} "
        "s, each before the slice reached a page from which it can resume, so it started again each time; expected "
        "it to get there with one (according to its server the last is valid until "
        f"{tokens[-1].expires:%Y-%m-%d %H:%M:%S %Z}). Have the stream emit checkpoints, or read smaller slices; if "
        "no request is accepted, check what the login is allowed to read"
    )
