"""SliceSchedule: which slices of a stream are read next, and where the stream stands once they were read."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from heapq import heappop, heappush

from cdk.base.errors import ConfigError, CredentialsError
from cdk.base.logs import logger
from cdk.base.values import JsonValue
from cdk.lake.delta.receipt import RecordCounts
from cdk.rest.auth.tokens import EndedToken
from cdk.state.slice import Slice
from cdk.state.wire import decoded, encode
from cdk.streams.checkpoint.reader import CheckpointReader
from cdk.streams.stream import Stream
from cdk.sync.reports.counts import counted
from cdk.sync.tasks.messages import Failure, SliceResult

_MOST_WASTED_TOKENS = 3
"""Access tokens in a row that bring a stream nothing, after which it fails: one may be revoked by chance."""


class SliceSchedule:
    """The slices of one attempt to read a stream from a state on. Belongs to the driver's thread."""

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
        """single: the stream must be one slice. check: is passed what the state knows and would be read again.

        compares_first: no slice is planned before it is known whether the state has the partitions' fields. refreshes:
        it is a full refresh, in which the state is that of an interrupted one.
        Raises BadState.
        """
        self._stream, self._single, self._check = stream, single, check
        self._compares_first = compares_first
        self._state = decoded(stream, state)
        self._reader: CheckpointReader = stream.checkpoint_reader(self._state)
        if refreshes:
            self._reader.skip_finished()
        self._waiting: list[tuple[int, Slice]] = []
        self._out: dict[int, tuple[int, Slice]] = {}
        """Of the slices that are handed out, by identity: the place in the plan, and what has not been read of it."""
        self.all_planned = False
        """Whether no further slice will be planned."""
        self.planned = 0
        """Slices that were handed out at least once."""
        self.reading = 0
        """Slices that are handed out now."""
        self.counts = RecordCounts()
        """What the slices counted since the last commit; nothing that is counted on the way to the table adds to it."""
        self.restarted = False
        """The source refused the page token of a slice, which was read again from its start."""
        self._wasted_tokens: dict[str, EndedToken] = {}
        """Those in a row that ended without any slice getting further, by their marks."""
        self.never: Failure | None = None
        """Why the source will never give some slice; the state keeps it open."""

    def next(self) -> Slice | None:
        """The next slice to hand out; None when there is none for now.

        Raises ConfigError: there is a second slice and must not be. And what planning raises: nothing more is planned.
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
            raise _several_slices(self._stream.name)
        self.all_planned = False
        self.planned += 1
        return self._hand_out(self.planned, slice)

    def _hand_out(self, index: int, slice: Slice) -> Slice:
        """index: in the plan; of the slices that wait, the one that was planned first is handed out first."""
        self.reading += 1
        self._out[id(slice)] = (index, slice)
        return slice

    def plan_ahead(self, slices: int) -> None:
        """Plan up to so many slices, which wait to be handed out. Raises what `next` raises."""
        ahead = [slice for _ in range(slices) if (slice := self.next()) is not None]
        for slice in ahead:
            self.put_back(slice)

    def put_back(self, slice: Slice) -> None:
        """Take back a slice that was handed out: what is known to be unread of it waits."""
        self.reading -= 1
        heappush(self._waiting, self._out.pop(id(slice)))

    def add_result(self, slice: Slice, progress: SliceResult, *, unfinished: bool = False) -> Failure | None:
        """Take over how far a slice got. One that failed, with the failure that is returned, is not handed out again.

        unfinished: it is still handed out, and what comes next is what came after this.
        """
        failure = progress.failure
        self.restarted |= progress.restarted
        for position in progress.positions:
            self._reader.observe(slice, position, progress.edge)
        if (last := progress.last) is not None:
            self.counts = counted(self.counts, progress)
            self._wasted_tokens.clear()
            if not progress.done:
                self._out[id(slice)] = (self._out[id(slice)][0], self._reader.resume(slice, last, progress.edge))
        elif progress.wasted_token is not None:
            self._wasted_tokens[progress.wasted_token.mark] = progress.wasted_token
            if len(self._wasted_tokens) >= _MOST_WASTED_TOKENS:
                failure = Failure.of(_begins_again(slice, [*self._wasted_tokens.values()]))
        if failure is not None and failure.final:
            self.never = self.never or failure
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
        """Whether no slice is handed out, and none waits."""
        return not self.reading and not self._waiting

    def plan_end(self) -> bool:
        """Whether all has been read. Where nothing is out or waiting, one more slice is planned to find out.

        Raises what `next` raises.
        """
        # Only asking the reader tells that nothing is left to plan; a slice it gives instead waits.
        if self.idle:
            self.all_planned = False
            self.plan_ahead(1)
        return self.all_planned and self.idle

    def forget_missing(self, after: timedelta) -> None:
        """Forget where partitions stand that the source has lacked for so long."""
        now = self._stream.now().replace(microsecond=0)
        if count := self._reader.forget_missing(now, after):
            logger.info("%s: its state forgets %d partitions that the source lacks", self._stream.name, count)

    def state(self) -> JsonValue:
        """The state that covers what was read so far, in its exact wire form."""
        self._state = self._reader.get_checkpoint() or self._state
        stream = self._stream
        return encode(self._state, incremental=stream.incremental, cursor_field=stream.cursor_field, exact=True)


def _begins_again(slice: Slice, tokens: Sequence[EndedToken]) -> CredentialsError:
    lasted = ", ".join(f"{token.lasted:.0f}" for token in tokens)
    return CredentialsError(
        f"{slice}: found {len(tokens)} access tokens in a row that the API refused, or that ended, after {lasted} s, "
        "each before the slice came to a page after which it can go on, so it began again; expected it to come there "
        f"with one (by its server the last works until {tokens[-1].expires:%Y-%m-%d %H:%M:%S %Z}). Have the stream say "
        "checkpoints, or read smaller slices; if no request is accepted, check what the login may read"
    )


def _several_slices(stream: str) -> ConfigError:
    return ConfigError(
        "found several slices, expected one: where only some of them have changed, the rows of the others would leave "
        "the table. Leave follow_source out, or write with append or append_dedup and without remove_stale",
        path=f"streams.{stream}.follow_source",
    )
