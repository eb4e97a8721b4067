"""record: reads a connector from its real source, then again from its states, and records the traffic."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from http import HTTPStatus

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from cdk.base.secret_masking import Secrets, secret_values
from cdk.base.times.clock import system_clock
from cdk.base.values import FieldValue, JsonValue, from_json, to_json
from cdk.protocol.messages import AirbyteStateMessage
from cdk.rest import Request, Response
from cdk.rest.auth.tokens import Tokens
from cdk.rest.http.transport import outgoing
from cdk.sources.config import prepared_config
from cdk.streams.source import Source
from cdk.testing.cassettes.interactions import Interaction, Recording
from cdk.testing.cassettes.matching import RequestIdentity, recorded_identity, sent_identity
from cdk.testing.cassettes.replay import Answers, Cassette
from cdk.testing.cassettes.scrubbing import Scrubber
from cdk.testing.run import read
from cdk.testing.simulation import FixedClock, simulated

RESUMES = 20
"""How many states of a stream are read from again, so that a read interrupted there can be replayed."""

_AGAIN = {HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS}


class Recorder:
    """A transport that sends logins and requests it has no recording of, and records them; one request at a time.

    secrets: of the config. sends: what sends the requests; by default the kit's real transport.
    """

    def __init__(self, secrets: Collection[str] = (), sends: Callable[[Request], Response] | None = None) -> None:
        self._send = sends or outgoing()
        self._secrets, self._scrubber = Secrets(secrets), Scrubber(secrets)
        self._answers = Answers()
        self._known = False
        self.sent_last = False
        """Whether the last response came from the source rather than from the recording."""
        self.interactions: list[Interaction] = []

    def send(self, request: Request) -> Response:
        """Return the response: inside `resuming` the recorded one, if any; otherwise that of the source.

        Logins always go to the source, since a recorded token may have expired.
        """
        known = self._recorded(request) if self._known and not request.login else None
        self.sent_last = known is None or self._fails_so_far(known)
        if known is not None and not self.sent_last:
            return known.response(request)
        response = self._send(request)
        content = b"".join(response.chunks()) if response.is_stream else response.body
        headers = {name: value for name, value in request.headers.items() if not request.is_secret(name)}
        interaction = Interaction(
            request.method, request.full_url, headers, request.body, response.status, dict(response.headers), content
        )
        self._scrubber.learn(request, interaction)
        key = sent_identity(request, self._secrets)
        if (before := self._answers.known.get(key)) and _answer(before[-1]) == _answer(interaction):
            return before[-1].response(request)
        self._answers.add(key, interaction)
        self.interactions.append(interaction)
        return interaction.response(request)

    def _recorded(self, request: Request) -> Interaction | None:
        """Return the next recorded response to a request, without a 401 that was followed by a new access token."""
        known = self._answers.find(request, self._secrets)
        while known is not None and known.status == HTTPStatus.UNAUTHORIZED and not self._fails_so_far(known):
            known = self._answers.find(request, self._secrets)
        return known

    def _fails_so_far(self, interaction: Interaction) -> bool:
        """Whether this is the last response recorded for its request and asks to retry: then the retry is sent.

        A 401 asks for it, too: with the next access token.
        """
        if interaction.status not in _AGAIN and interaction.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return False
        return any(interaction is answers[-1] for answers in self._answers.known.values())

    @contextmanager
    def resuming(self) -> Iterator[None]:
        """Answer requests that were recorded before from the recording, from its start, inside the block."""
        self._answers.rewind()
        self._known = True
        try:
            yield
        finally:
            self._known = False

    def recording(self, config: Mapping[str, JsonValue], recorded_at: datetime) -> Recording:
        """Return the recording without secrets. Raises FatalError: when a body that is not text holds one."""
        scrubbed = [self._scrubber.scrubbed(interaction) for interaction in self.interactions]
        masked = self._scrubber.config(dict(config))
        assert isinstance(masked, Mapping)
        return Recording(scrubbed, masked, recorded_at)


class RecordingClock(FixedClock):
    """A clock that stands still; after a response of the source waits take real time.

    After a recorded response no real wait is needed: a source that answered "too soon" a few times during the read
    would otherwise make each of the reads from its states wait as long.
    """

    def __init__(self, now: datetime, recorder: Recorder, wait: Callable[[float], object] | None = None) -> None:
        """wait: lets real time pass; by default blocks for that many seconds."""
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
    """Read streams from their source, and again from their states; return all requests and responses, without secrets.

    config: as the user writes it. streams: names; empty for all. resumes: from how many states of a stream, the last
    one included, to read it again; afterwards the connection is checked, as `check` does. All these send only requests
    that are not recorded yet. sample: how many records of a page to keep, where later requests do not depend on the
    others. The clock stands at the second in which the recording starts.
    Raises what reading raises; CatalogError: when there is no such stream; ConfigError: when the config is invalid.
    """
    reads = _Reads.of(source, config, streams, resumes)
    recorder = Recorder(reads.secrets, sends)
    clock = RecordingClock(system_clock().replace(microsecond=0), recorder)
    recorded_at = clock()
    with simulated(recorder, clock):
        reads.run(recorder.resuming)
    recording = recorder.recording(config, recorded_at)
    return recording if sample is None else reads.sample(recording, sample)


def without_resumes(
    recording: Recording,
    source: Source,
    config: Mapping[str, JsonValue],
    *,
    streams: Sequence[str] = (),
    sample: int | None = None,
) -> Recording:
    """Return what `record` without resumes would have recorded of these streams; everything if they cannot be replayed.

    config: as the user writes it, with any secrets. sample: as for `record`. Raises ConfigError: when it is invalid.
    """
    reads = _Reads.of(source, config, streams, 0)
    requested = reads.requested(recording)
    if requested is None:
        return recording
    fewer = replace(
        recording, interactions=[each for each in recording.interactions if recorded_identity(each) in requested]
    )
    # Lists that resumed reads need in full may be shortened without those reads.
    return fewer if sample is None else reads.sample(fewer, sample)


class _Reads(Struct, frozen=True):
    """The reads and the check that are recorded. prepared: the config as the source receives it."""

    source: Source
    config: Mapping[str, JsonValue]
    prepared: Mapping[str, JsonValue]
    streams: Sequence[str]
    resumes: int

    @staticmethod
    def of(source: Source, config: Mapping[str, JsonValue], streams: Sequence[str], resumes: int) -> "_Reads":
        """Return the reads for a config as the user writes it. Raises ConfigError: when it is invalid."""
        return _Reads(source, config, prepared_config(config, source, "config", Secrets()), streams, resumes)

    @property
    def secrets(self) -> Collection[str]:
        """The secret values of the config, as written and as prepared."""
        schema = self.source.config_schema
        return {text for form in (self.config, self.prepared) for text in secret_values(schema, form)}

    def run(self, resuming: Callable[[], AbstractContextManager[None]]) -> None:
        """Read each stream, also from its states, and check. resuming: the context in which these further reads run.

        Access tokens are shared by all of them, so that none logs in again while the token is valid.
        """
        tokens = Tokens()
        for name in self.streams or [stream.name for stream in self.source.open(self.prepared)]:
            self._read(name, tokens, resuming)
        with resuming(), tokens.run().working():
            self.source.check(self.prepared)

    def _read(self, name: str, tokens: Tokens, resuming: Callable[[], AbstractContextManager[None]]) -> None:
        """Read a stream from its start and from some of its states. Raises the error that ended a read."""
        for state in _spread(self._states(name, tokens), self.resumes):
            with resuming():
                self._states(name, tokens, state)

    def _states(self, name: str, tokens: Tokens, *state: AirbyteStateMessage) -> Sequence[AirbyteStateMessage]:
        """Read a stream to its end, from its start or a state; return the states of all places it could resume at."""
        with tokens.run().working():
            run = read(self.source, name, config=self.config, state=state, every_state=True)
        if run.error is not None:
            raise run.error
        return [msgspec.convert(m["state"], AirbyteStateMessage) for m in run.messages if m["type"] == "STATE"]

    def requested(self, recording: Recording) -> Collection[RequestIdentity] | None:
        """Return the requests that the reads send to a recording; None if it lacks a response."""
        cassette = Cassette(recording, secrets=self.secrets)
        try:
            with cassette.playing():
                self.run(cassette.playing)
        except Exception:  # noqa: BLE001 - a connector's own code, which may fail in any way when a response is missing
            return None
        return cassette.answers.requested

    def sample(self, recording: Recording, most: int) -> Recording:
        """Return the recording with at most `most` records of each page; see `sampled`."""

        def requested(fewer: Sequence[Interaction]) -> Collection[RequestIdentity] | None:
            return self.requested(replace(recording, interactions=fewer))

        return replace(recording, interactions=sampled(recording.interactions, most, requested), sample=most)


def _answer(interaction: Interaction) -> Interaction:
    return replace(interaction, response_headers={})


def _spread(states: Sequence[AirbyteStateMessage], most: int) -> Sequence[AirbyteStateMessage]:
    """Return at most `most` of the states, evenly spread, the last one among them."""
    return states if len(states) <= most else [states[-1 - number * len(states) // most] for number in range(most)]


def sampled(
    interactions: Sequence[Interaction],
    most: int,
    requested: Callable[[Sequence[Interaction]], Collection[RequestIdentity] | None],
) -> Sequence[Interaction]:
    """Return the interactions with at most `most` objects in each list, the last one among them.

    An endpoint stays unchanged if its later pages depend on records that would be removed, for example where a page is
    requested by a count of records or by the last record before it. Requests that exist only because of removed
    records, such as those for the children of a parent, are removed too.
    requested: returns the requests of a read from these interactions; None when that read lacks a response.
    """
    result, done = list(interactions), set[str]()
    while (endpoint := next((each.endpoint for each in result if each.endpoint not in done), None)) is not None:
        done.add(endpoint)
        fewer = [_shortened(each, most) if each.endpoint == endpoint else each for each in result]
        requests = requested(fewer) if fewer != result else None
        if requests is None:
            continue
        # All pages of the shortened endpoint must still be requested.
        if all(recorded_identity(each) in requests for each in fewer if each.endpoint == endpoint):
            result = [each for each in fewer if recorded_identity(each) in requests]
    return result


def _shortened(interaction: Interaction, most: int) -> Interaction:
    try:
        body = from_json(interaction.content)
    except orjson.JSONDecodeError:
        return interaction
    shortened = _shortened_lists(body, most)
    return interaction if shortened == body else replace(interaction, content=to_json(shortened))


def _shortened_lists(value: FieldValue, most: int) -> FieldValue:
    match value:
        case list() if value and all(isinstance(item, dict) for item in value):
            return value if len(value) <= most else [*value[: most - 1], value[-1]]
        case dict():
            return {name: _shortened_lists(item, most) for name, item in value.items()}
        case _:
            return value
