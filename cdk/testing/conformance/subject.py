"""SuiteSubject: a connector under test, with all that it takes to run it again and again in the same world."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from importlib import import_module
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from cdk.base.secret_masking import Secrets, secret_values, spellings
from cdk.base.times.clock import system_clock
from cdk.base.values import FieldValue, JsonObject, from_json, to_json
from cdk.protocol import AirbyteStateMessage
from cdk.rest import Transport
from cdk.sources.config import prepared_config
from cdk.streams.source import Source
from cdk.streams.stream import Stream
from cdk.testing.cassettes.replay import Unrecorded
from cdk.testing.conformance.faults import Network
from cdk.testing.conformance.finding import Nonconforming
from cdk.testing.read_result import ReadResult
from cdk.testing.routes import UnexpectedRequest
from cdk.testing.run import read
from cdk.testing.simulation import MockClock, simulated

__tracebackhide__ = True
"""What is wrong stands in the text of the error; pytest shows no lines of the suite besides."""

_STDOUT = 1
_SHORT = 5


class Unanswered(Nonconforming):
    """A read sends a request that the cassette, or the mock API, has no response for."""


@dataclass(frozen=True)
class CommandResult:
    """What a command of the connector's program gave: its exit code, its protocol messages, and all of its text."""

    code: int
    messages: list[FieldValue]
    text: str

    def of(self, kind: str) -> list[FieldValue]:
        """The messages of a type."""
        return [message for message in self.messages if message["type"] == kind]


@dataclass(frozen=True)
class SuiteSubject:
    """A connector, its config and its API. transport: makes the API anew. now: when all of its runs begin."""

    source: Source
    config: Mapping[str, FieldValue]
    transport: Callable[[], Transport | None]
    now: MockClock = field(default_factory=lambda: MockClock(system_clock()))
    _first: list[ReadResult | str] = field(default_factory=list)
    """The first read, or why it fails."""

    @property
    def name(self) -> str:
        return self.source.name or type(self.source).__name__

    def secrets(self, others: Iterable[str] = ()) -> list[str]:
        """The spellings of the config's secrets and of others, but for those so short that they are everywhere."""
        values = {*secret_values(self.source.config_schema, self.config), *others}
        return sorted({form for value in values if len(value) > _SHORT for form in spellings(value).values()})

    def api(self) -> Transport:
        """The API, as it is before any request."""
        return self.transport() or Network()

    @contextmanager
    def world(self, api: Transport | None = None) -> Iterator[None]:
        """Let what runs meanwhile have this API, and a clock of its own that begins now."""
        with simulated(api or self.api(), MockClock(self.now())):
            yield

    @contextmanager
    def streams(self) -> Iterator[Mapping[str, Stream]]:
        """The streams by name, as a read opens them."""
        with self.world():
            settings = prepared_config(self.config, self.source, "config", Secrets())
            yield {stream.name: stream for stream in self.source.open(settings)}

    @property
    def first(self) -> ReadResult:
        """All streams, read one slice after the other, with every state.

        Raises Nonconforming: that fails, which the first that asks says in full and all others in a line.
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
                    f"as another test says in full, {failure}",
                    where=self.name,
                    expected="a read to the end, which this test begins with",
                    advice="correct that first",
                )
            case result:
                return result

    def states_of(self, stream: str) -> list[AirbyteStateMessage]:
        """Every state of a stream in the first read, as it comes back from a file."""
        messages = [m["state"] for m in self.first.messages if m["type"] == "STATE"]
        states = [AirbyteStateMessage.model_validate(from_json(to_json(message))) for message in messages]
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
        """Read streams: all of them, the one of a name, or one that was opened before.

        why: what it is for, in words. Raises Nonconforming: the read fails; Unanswered where it does for want of a
        recorded or mocked response.
        """
        source, name = (stream, stream.name) if isinstance(stream, Stream) else (self.source, stream)
        try:
            run = read(
                source,
                name,
                config=self.config,
                state=state,
                transport=api or self.api(),
                clock=MockClock(self.now()),
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
        """Run a command of the protocol as the program of the connector does, in this process."""
        # The command line is above this package; the program of a connector calls it by this door.
        launch = import_module("cdk").launch
        with TemporaryDirectory() as folder, self.world(api):
            arguments, code = [name], 0
            if name != "spec":
                path = Path(folder) / "config.json"
                path.write_bytes(to_json(dict(self.config if config is None else config)))
                arguments += ["--config", str(path)]
            if name == "read":
                # Which request fails is then the same each time.
                arguments += ["--concurrency", "1"]
            with _standard_output() as lines, redirect_stderr(StringIO()) as errors:
                try:
                    launch(self.source, arguments)
                except SystemExit as end:
                    code = end.code if isinstance(end.code, int) else 1
        return CommandResult(
            code, [self._message(line, name) for line in lines], "\n".join([*lines, errors.getvalue()])
        )

    def _message(self, line: str, command: str) -> JsonObject:
        try:
            message = from_json(line)
        except ValueError:
            message = None
        if not isinstance(message, dict) or "type" not in message:
            raise Nonconforming(
                f"`{command}` writes what is no message: {line[:200]!r}",
                where=f"{self.name}, standard output",
                expected="protocol messages, one a line, and nothing else",
                advice="use a logger in place of writing to descriptor 1",
            )
        return message


@contextmanager
def _standard_output() -> Iterator[list[str]]:
    """Gather the lines that are written to standard output; they are there when the block ends."""
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
