"""SuiteSubject: a connector under test, run repeatedly under the same conditions; Nonconforming: what it does wrong."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from msgspec import Struct, convert, field

from cdk.base.secret_masking import Secrets, secret_values, spellings
from cdk.base.times.clock import system_clock
from cdk.base.values import FieldValue, JsonObject, JsonValue, from_json, to_json
from cdk.base.wording import listed
from cdk.protocol.messages import AirbyteStateMessage
from cdk.rest import Transport
from cdk.sources.config import prepared_config
from cdk.streams.source import Source
from cdk.streams.stream import Stream
from cdk.testing.cassettes.replay import Unrecorded
from cdk.testing.conformance.faults import Network
from cdk.testing.routes import UnexpectedRequest
from cdk.testing.run import ReadResult, read
from cdk.testing.simulation import MockClock, simulated

_SHOWN = 5


class Nonconforming(AssertionError):
    """Raised when a connector does something that no connector may do."""

    def __init__(self, problem: str, *, where: str, expected: str, advice: str) -> None:
        """Build the message from the problem, its place, what was expected and what to do."""
        super().__init__(f"{problem}\n  where:    {where}\n  expected: {expected}\n  do this:  {advice}")


def listed_json(values: Sequence[JsonValue]) -> str:
    """Return the first few values as JSON, and how many more there are."""
    return listed(values, _SHOWN, lambda value: to_json(value).decode()[:200])


__tracebackhide__ = True
"""The text of the error says what is wrong, so pytest does not show the code of the suite."""

_STDOUT = 1
_SHORT = 5


class Unanswered(Nonconforming):
    """Raised when a read sends a request that the cassette or the mock API has no response for."""


class CommandResult(ReadResult):
    """The result of a connector's command: its protocol messages, its exit code, and all of its output as text."""

    code: int = 0
    text: str = ""

    def of(self, kind: str) -> list[FieldValue]:
        """Return the messages of a type."""
        return [message for message in self.messages if message["type"] == kind]


class SuiteSubject(Struct, frozen=True):
    """A connector, its config and its API. transport: creates the API afresh. now: the time at which all runs start."""

    source: Source
    config: Mapping[str, FieldValue]
    transport: Callable[[], Transport | None]
    now: MockClock = field(default_factory=lambda: MockClock(system_clock()))
    _first: list[ReadResult | str] = field(default_factory=list)
    """The result of the first read, or the reason for its failure."""

    @property
    def name(self) -> str:
        return self.source.name or type(self.source).__name__

    def secrets(self, others: Iterable[str] = ()) -> list[str]:
        """Return the spellings of the config's secrets and of `others`, without those too short to be searched for."""
        values = {*secret_values(self.source.config_schema, self.config), *others}
        return sorted({form for value in values if len(value) > _SHORT for form in spellings(value).values()})

    def api(self) -> Transport:
        """Return the API as it is before any request."""
        return self.transport() or Network()

    @contextmanager
    def world(self, api: Transport | None = None) -> Iterator[None]:
        """Run the block with this API and with a clock of its own that starts at `now`."""
        with simulated(api or self.api(), self.now.restarted()):
            yield

    @contextmanager
    def streams(self) -> Iterator[Mapping[str, Stream]]:
        """Yield the streams by name, opened as a read opens them."""
        with self.world():
            settings = prepared_config(self.config, self.source, "config", Secrets())
            yield {stream.name: stream for stream in self.source.open(settings)}

    @property
    def stream_names(self) -> Sequence[str]:
        """The names of the streams, in the connector's order."""
        with self.streams() as streams:
            return list(streams)

    @property
    def first(self) -> ReadResult:
        """The result of reading all streams, one slice after the other, with every state.

        Raises Nonconforming: when the read fails; the first access has the full message, later ones a single line.
        """
        if not self._first:
            try:
                self._first.append(self.read())
            except Nonconforming as error:
                self._first.append(str(error).partition("\n")[0])
                raise
        match self._first[0]:
            case str() as failure:
                raise Nonconforming(
                    f"another test reports this in full: {failure}",
                    where=self.name,
                    expected="a read to the end, which this test begins with",
                    advice="correct that first",
                )
            case result:
                return result

    def states_of(self, stream: str) -> list[AirbyteStateMessage]:
        """Return every state of a stream in the first read, serialized and parsed as if it came from a file."""
        messages = [m["state"] for m in self.first.messages if m["type"] == "STATE"]
        states = [convert(from_json(to_json(message)), AirbyteStateMessage) for message in messages]
        return [state for state in states if state.stream and state.stream.stream_descriptor.name == stream]

    def read(
        self,
        stream: Stream | str | None = None,
        *,
        state: Iterable[AirbyteStateMessage] = (),
        api: Transport | None = None,
        concurrency: int = 1,
        why: str = "a first read",
    ) -> ReadResult:
        """Read all streams, the stream with the given name, or a stream that was opened before.

        why: the purpose of the read, for errors. Raises Nonconforming: when the read fails; Unanswered: when it fails
        because a recorded or mocked response is missing.
        """
        source, name = (stream, stream.name) if isinstance(stream, Stream) else (self.source, stream)
        try:
            run = read(
                source,
                name,
                config=self.config,
                state=state,
                transport=api or self.api(),
                clock=self.now.restarted(),
                concurrency=concurrency,
                every_state=True,
            )
            if run.error is None:
                return run
            error: Exception = run.error
        except UnexpectedRequest as unexpected:
            error = unexpected
        kind = Unanswered if isinstance(error, UnexpectedRequest | Unrecorded) else Nonconforming
        text = Secrets(secret_values(self.source.config_schema, self.config)).mask(str(error))
        raise kind(
            f"{why} fails: {text}",
            where=name or self.name,
            expected="a read to the end",
            advice="correct the connector, its config, or the API that the suite is given",
        ) from None

    def command(
        self, name: str, *, config: Mapping[str, FieldValue] | None = None, api: Transport | None = None
    ) -> CommandResult:
        """Run a protocol command in this process, as the connector's program does."""
        # The command line is a layer above this package; `cdk.launch` is how a connector's program calls it.
        launch = import_module("cdk").launch
        with TemporaryDirectory() as folder, self.world(api):
            arguments, code = [name], 0
            if name != "spec":
                path = Path(folder) / "config.json"
                path.write_bytes(to_json(dict(self.config if config is None else config)))
                arguments += ["--config", str(path)]
            if name == "read":
                # With one slice at a time, the same request fails in each run.
                arguments += ["--concurrency", "1"]
            with _standard_output() as lines, redirect_stderr(StringIO()) as errors:
                try:
                    launch(self.source, arguments)
                except SystemExit as end:
                    code = end.code if isinstance(end.code, int) else 1
        messages = [self._message(line, name) for line in lines]
        return CommandResult(messages, code=code, text="\n".join([*lines, errors.getvalue()]))

    def _message(self, line: str, command: str) -> JsonObject:
        try:
            message = from_json(line)
        except ValueError:
            message = None
        if not isinstance(message, dict) or "type" not in message:
            raise Nonconforming(
                f"`{command}` writes a line that is not a protocol message: {line[:200]!r}",
                where=f"{self.name}, standard output",
                expected="protocol messages, one a line, and nothing else",
                advice="use a logger in place of writing to descriptor 1",
            )
        return message


@contextmanager
def _standard_output() -> Iterator[list[str]]:
    """Capture the lines written to standard output; the list is filled when the block ends."""
    lines: list[str] = []
    sys.stdout.flush()
    before = os.dup(_STDOUT)
    with TemporaryFile() as file:
        os.dup2(file.fileno(), _STDOUT)
        try:
            yield lines
        finally:
            os.dup2(before, _STDOUT)
            os.close(before)
            file.seek(0)
            lines += file.read().decode(errors="replace").splitlines()
