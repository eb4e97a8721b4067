"""Offsets of a streaming read, which Spark stores in the query's checkpoint.

An offset has the stream's state in its exact wire form, and what the state belongs to: `{"state": TEXT, "stream":
NAME}`, with `cursor`, the cursor's field, and `end`, the cursor's own end once a partition has been read up to it.
"""

from collections.abc import Mapping

from msgspec import Struct

from cdk.base.errors import StateError
from cdk.base.values import canonical, from_json
from cdk.state.log.value_check import SecretCheck
from cdk.state.stream_state import StreamState
from cdk.state.wire import decode, encode
from cdk.streams.stream import Stream

Offset = dict[str, str]


class Offsets(Struct, frozen=True):
    """Writes the offsets of a stream, and reads them. leaks: the secrets that no offset may contain."""

    stream: Stream
    leaks: SecretCheck

    def write(self, state: StreamState, end: str | None) -> Offset:
        """Return the offset of a state. end: the cursor's own end, if a partition was read up to it.

        Raises StateError: when the state contains a secret of the config.
        """
        stream = self.stream
        text = canonical(encode(state, incremental=stream.incremental, exact=True))
        self.leaks.refuse(text.encode(), self._path)
        belongs = {"stream": stream.name, "cursor": stream.cursor_field, "end": end}
        return {"state": text, **{name: value for name, value in belongs.items() if value is not None}}

    def read(self, offset: Mapping[str, str]) -> StreamState:
        """Return the state of an offset. Raises StateError: when it belongs to another stream, or another cursor."""
        stream = self.stream
        if (name := offset["stream"]) != stream.name:
            raise self._foreign(
                f"the stream {name!r}",
                f"{stream.name!r}",
                "give each stream a checkpoint folder of its own. If this one was renamed, start a query with another "
                "checkpoint folder, whose option state is the state in this offset",
            )
        if (field := offset.get("cursor")) != stream.cursor_field:
            raise self._foreign(
                f"the cursor {field!r}" if field else "a stream without a cursor",
                f"the cursor {stream.cursor_field!r}" if stream.cursor_field else "one without a cursor",
                "all of it would be read again. Have the source advance as before, or start a query with another "
                "checkpoint folder",
            )
        return decode(from_json(offset["state"]), path=self._path, cursor_field=stream.cursor_field)

    def check_end(self, offset: Mapping[str, str], end: str | None) -> None:
        """Raise StateError when partitions were read up to another end than `end`, that of today's cursor."""
        if (closed := offset.get("end")) not in {None, end}:
            raise self._foreign(
                f"a stream that was read up to its end at {closed}",
                f"one that {'ends at ' + end if end else 'has no end'}",
                "what follows would not be read. Have the cursor end there again, or start a query with another "
                "checkpoint folder, whose option state has that end as the cursor's value",
            )

    def changed(self, difference: str) -> StateError:
        """Return the error for a state from which the stream does not resume. difference: how the two differ."""
        return StateError(
            f"{difference}: all of it would be read again. Have the source name it as before, or start a query with "
            "another checkpoint folder",
            path=self._path,
            stream=self.stream.name,
        )

    def _foreign(self, actual: str, expected: str, do: str) -> StateError:
        return StateError(
            f"found the offset of {actual} in the query's checkpoint, expected that of {expected}: {do}",
            path=self._path,
            stream=self.stream.name,
        )

    @property
    def _path(self) -> str:
        return f"offset of {self.stream.name}"
