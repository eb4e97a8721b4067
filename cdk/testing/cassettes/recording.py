"""record: reads a connector once from its real source, then from its states, and keeps requests and responses."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

import orjson

from cdk.base.secret_masking import Secrets, secret_values
from cdk.base.times.clock import system_clock
from cdk.base.values import FieldValue, JsonValue, from_json, to_json
from cdk.protocol import AirbyteStateMessage
from cdk.rest import Request, Response
from cdk.rest.http.transport import outgoing
from cdk.sources.config import prepared_config
from cdk.streams.source import Source
from cdk.testing.cassettes.interactions import Interaction, Recording
from cdk.testing.cassettes.matching import Sent, recorded, sent
from cdk.testing.cassettes.replay import Answers, Cassette
from cdk.testing.cassettes.scrubbing import Scrubber
from cdk.testing.run import read
from cdk.testing.simulation import MockClock, simulated

RESUMES = 20
"""From so many states of a stream it is read again, so that a read which was interrupted there can be replayed."""


class Recorder:
    """A transport that sends what it does not know yet, and keeps it; one request at a time.

    secrets: of the config. sends: what really sends.
    """

    def __init__(self, secrets: Collection[str] = (), sends: Callable[[Request], Response] | None = None) -> None:
        self._send = sends or outgoing()
        self._secrets, self._scrubber = Secrets(secrets), Scrubber(secrets)
        self._answers = Answers()
        self._known = False
        self.sent_last = False
        """Whether the last response came from the source, and not from the recording."""
        self.interactions: list[Interaction] = []

    def send(self, request: Request) -> Response:
        """The response to `request`: the recorded one where there is one, or that of the source."""
        known = self._answers.find(request, self._secrets) if self._known else None
        self.sent_last = known is None or self._fails_so_far(known)
        if known is not None and not self.sent_last:
            return known.response(request)
        response = self._send(request)
        content = b"".join(response.chunks()) if response.is_stream else response.body
        headers = {name: value for name, value in request.headers.items() if not request.hides(name)}
        interaction = Interaction(
            request.method, request.full_url, headers, request.body, response.status, dict(response.headers), content
        )
        self._scrubber.learn(request, interaction)
        key = sent(request, self._secrets)
        if (before := self._answers.known.get(key)) and _answer(before[-1]) == _answer(interaction):
            return before[-1].response(request)
        self._answers.add(key, interaction)
        self.interactions.append(interaction)
        return interaction.response(request)

    def _fails_so_far(self, interaction: Interaction) -> bool:
        """Whether it is the last answer to a request, and no other than to try again: then the next try is sent."""
        if interaction.status != HTTPStatus.TOO_MANY_REQUESTS and interaction.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return False
        return any(interaction is answers[-1] for answers in self._answers.known.values())

    @contextmanager
    def resuming(self) -> Iterator[None]:
        """Answer what was asked before from the recording meanwhile, from its beginning."""
        self._answers.rewind()
        self._known = True
        try:
            yield
        finally:
            self._known = False

    def recording(self, config: Mapping[str, JsonValue], moment: datetime) -> Recording:
        """What was recorded, without the secrets. Raises FatalError: one is in a body that is no text."""
        scrubbed = [self._scrubber.scrubbed(interaction) for interaction in self.interactions]
        masked = self._scrubber.config(dict(config))
        assert isinstance(masked, Mapping)
        return Recording(scrubbed, masked, moment)


class RecordingClock(MockClock):
    """A clock that stands still but for waits, which take their time where the source asks for them.

    What is answered from the recording waits for nobody. A source that said "too soon" a few times while it was read
    would otherwise have each of the reads from its states wait as long.
    """

    def __init__(self, now: datetime, recorder: Recorder, wait: Callable[[float], object] | None = None) -> None:
        """wait: lets time pass outside; default: waits so long."""
        super().__init__(now)
        self._recorder, self._wait = recorder, wait or threading.Event().wait

    def sleep(self, seconds: float) -> None:
        if self._recorder.sent_last:
            self._wait(seconds)
        super().sleep(seconds)


def record(
    source: Source,
    config: Mapping[str, JsonValue],
    *,
    streams: Sequence[str] = (),
    resumes: int = RESUMES,
    sample: int | None = None,
    sends: Callable[[Request], Response] | None = None,
) -> Recording:
    """Read streams from their source, and from their states, and give what was asked and answered, without secrets.

    config: as people write it. streams: by name; all where none is named. resumes: from how many states of
    a stream, the last one included, it is read again; then it is checked, as `check` does; only what was not asked
    before is sent then. sample: how many
    records of a page are kept, where the pages that are asked for do not hang on it. The clock stands at the second in
    which this begins.
    Raises what reading raises; CatalogError: there is no such stream; ConfigError: the config does not fit.
    """
    reads = _Reads.of(source, config, streams, resumes)
    recorder = Recorder(reads.secrets, sends)
    clock = RecordingClock(system_clock().replace(microsecond=0), recorder)
    moment = clock()
    with simulated(recorder, clock):
        reads.run(recorder.resuming)
    recording = recorder.recording(config, moment)
    return recording if sample is None else reads.sample(recording, sample)


def without_resumes(
    recording: Recording,
    source: Source,
    config: Mapping[str, JsonValue],
    *,
    streams: Sequence[str] = (),
    sample: int | None = None,
) -> Recording:
    """What `record` without resumes would have recorded of these streams; all where they cannot be replayed.

    config: as people write it, of any secrets. sample: as for `record`. Raises ConfigError: it does not fit.
    """
    reads = _Reads.of(source, config, streams, 0)
    requested = reads.requested(recording)
    if requested is None:
        return recording
    fewer = replace(recording, interactions=[each for each in recording.interactions if recorded(each) in requested])
    # What resumed reads need whole, these may not.
    return fewer if sample is None else reads.sample(fewer, sample)


class _Reads(NamedTuple):
    """The reads and the check that are recorded. prepared: the config as the source has it."""

    source: Source
    config: Mapping[str, JsonValue]
    prepared: Mapping[str, JsonValue]
    streams: Sequence[str]
    resumes: int

    @staticmethod
    def of(source: Source, config: Mapping[str, JsonValue], streams: Sequence[str], resumes: int) -> "_Reads":
        """Those of a config as people write it. Raises ConfigError: it does not fit."""
        return _Reads(source, config, prepared_config(config, source, "config", Secrets()), streams, resumes)

    @property
    def secrets(self) -> Collection[str]:
        """The secret texts of the config."""
        schema = self.source.config_schema
        return {text for form in (self.config, self.prepared) for text in secret_values(schema, form)}

    def run(self, resuming: Callable[[], AbstractContextManager[None]]) -> None:
        """Read each stream, from its states too, and check. resuming: what these further reads run in."""
        for name in self.streams or [stream.name for stream in self.source.open(self.prepared)]:
            _read(self.source, self.config, name, self.resumes, resuming)
        with resuming():
            self.source.check(self.prepared)

    def requested(self, recording: Recording) -> Collection[Sent] | None:
        """What they ask for where a recording answers; None: what is not there."""
        cassette = Cassette(recording, secrets=self.secrets)
        try:
            with cassette.playing():
                self.run(cassette.playing)
        except Exception:  # noqa: BLE001 - a connector's own code, which may stumble over what is not there
            return None
        return cassette.answers.requested

    def sample(self, recording: Recording, keep: int) -> Recording:
        """The recording with at most so many records of each page; see `sampled`."""

        def requested(fewer: Sequence[Interaction]) -> Collection[Sent] | None:
            return self.requested(replace(recording, interactions=fewer))

        return replace(recording, interactions=sampled(recording.interactions, keep, requested), sample=keep)


def _read(
    source: Source,
    config: Mapping[str, JsonValue],
    name: str,
    resumes: int,
    resuming: Callable[[], AbstractContextManager[None]],
) -> None:
    """Read a stream from its start and from some of its states. Raises what stopped it."""
    for state in _spread(_states(source, config, name), resumes):
        with resuming():
            _states(source, config, name, state)


def _states(
    source: Source, config: Mapping[str, JsonValue], name: str, *state: AirbyteStateMessage
) -> Sequence[AirbyteStateMessage]:
    """Read a stream to its end, from a state; the states of all places where it could resume."""
    run = read(source, name, config=config, state=state, every_state=True)
    if run.error is not None:
        raise run.error
    return [AirbyteStateMessage.model_validate(m["state"]) for m in run.messages if m["type"] == "STATE"]


def _answer(interaction: Interaction) -> Interaction:
    return replace(interaction, response_headers={})


def _spread(states: Sequence[AirbyteStateMessage], most: int) -> Sequence[AirbyteStateMessage]:
    """At most so many of some states, evenly, the last one among them."""
    if len(states) <= most:
        return states
    return [states[-1 - number * len(states) // most] for number in range(most)]


def sampled(
    interactions: Sequence[Interaction],
    keep: int,
    requested: Callable[[Sequence[Interaction]], Collection[Sent] | None],
) -> Sequence[Interaction]:
    """The interactions with at most `keep` objects in each list, the last one among them.

    A path whose pages hang on what would be cut, such as pages that are counted or begin after a record, stays as it
    is. What is only asked because of records that are cut, such as the children of a parent, goes with them.
    requested: what a read from these interactions asks for; None where it asks for what is not there.
    """
    result, done = list(interactions), set[str]()
    while fresh := [path for interaction in result if (path := _path(interaction)) not in done]:
        path = fresh[0]
        done.add(path)
        fewer = [_cut(interaction, keep) if _path(interaction) == path else interaction for interaction in result]
        requests = requested(fewer) if fewer != result else None
        if requests is None:
            continue
        reachable = [interaction for interaction in fewer if recorded(interaction) in requests]
        # Of a path that is read at all, all pages are.
        if all(recorded(interaction) in requests for interaction in fewer if _path(interaction) == path):
            result = reachable
    return result


def _path(interaction: Interaction) -> str:
    return f"{interaction.method} {urlsplit(interaction.url).path}"


def _cut(interaction: Interaction, keep: int) -> Interaction:
    try:
        body = from_json(interaction.content)
    except orjson.JSONDecodeError:
        return interaction
    cut = _fewer(body, keep)
    return interaction if cut == body else replace(interaction, content=to_json(cut))


def _fewer(value: FieldValue, keep: int) -> FieldValue:
    match value:
        case list() if value and all(isinstance(item, dict) for item in value):
            return value if len(value) <= keep else [*value[: keep - 1], value[-1]]
        case dict():
            return {name: _fewer(item, keep) for name, item in value.items()}
        case _:
            return value
