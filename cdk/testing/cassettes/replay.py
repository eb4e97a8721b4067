"""Cassette: answers a connector's requests from a recording, without the network."""

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cdk.base.errors import FatalError
from cdk.base.secret_masking import Secrets
from cdk.base.values import JsonValue
from cdk.rest import Request, Response
from cdk.rest.http.transport import Offline
from cdk.testing.cassettes.interactions import Interaction, Recording, load
from cdk.testing.cassettes.matching import RequestIdentity, fits, nearest, recorded_identity, sent_identity
from cdk.testing.simulation import FixedClock, MockClock, simulated


class Unrecorded(FatalError):
    """Raised for a request that the cassette has no response to."""


class Answers:
    """Recorded responses by request. Safe to use from several threads.

    Several responses to the same request are returned in order; the last one repeats.
    ignored: parameters and headers that are not compared, in lower case.
    """

    def __init__(self, interactions: Iterable[Interaction] = (), ignored: Collection[str] = ()) -> None:
        self.known: dict[RequestIdentity, list[Interaction]] = {}
        self.ignored = ignored
        self._lock = threading.Lock()
        self._turns: Counter[RequestIdentity] = Counter()
        self.requested: set[RequestIdentity] = set()
        for interaction in interactions:
            self.add(recorded_identity(interaction, ignored), interaction)

    def add(self, request: RequestIdentity, interaction: Interaction) -> None:
        """Append a response to those of a request."""
        self.known.setdefault(request, []).append(interaction)

    def rewind(self) -> None:
        """Start again from the first response of each request."""
        self._turns.clear()

    def find(self, request: Request, secrets: Secrets) -> Interaction | None:
        """Return the next response to a request; None if there is none."""
        keys = [sent_identity(request, secrets, self.ignored, blank=blank) for blank in (False, True)]
        if (key := next((key for key in keys if key in self.known), None)) is not None:
            return self._next(key)
        # When the config is not the recorded one, the request may carry a secret that it does not mark as one.
        fitting = [known for known in self.known if fits(keys[0], known)]
        return self._next(fitting[0]) if len(fitting) == 1 else None

    def _next(self, known: RequestIdentity) -> Interaction:
        answers = self.known[known]
        with self._lock:
            self._turns[known] += 1
            self.requested.add(known)
            return answers[min(self._turns[known], len(answers)) - 1]


class Cassette(Offline):
    """A transport that answers from a recording, in the recorded order, and sends nothing.

    source: a file written by `spark-cdk record` or by vcrpy, or a recording. secrets: of the config used for reading,
    if they differ from those of the recorded config. ignore: parameters and headers that are not compared, such as one
    with a random number. alone: refuse connections that bypass the kit while the cassette plays. Picklable: in another
    process it starts from the first responses.
    Raises ConfigError: when the file holds no cassette.
    """

    def __init__(
        self,
        source: str | Path | Recording,
        *,
        secrets: Iterable[str] = (),
        ignore: Iterable[str] = (),
        alone: bool = True,
    ) -> None:
        self._path = "in memory" if isinstance(source, Recording) else str(source)
        self._secret_values, self._ignore = tuple(secrets), frozenset(name.lower() for name in ignore)
        self.blocks_own_connections = alone
        self._play(source if isinstance(source, Recording) else load(Path(source)))

    def _play(self, recording: Recording) -> None:
        self.recording, self._secrets = recording, Secrets(self._secret_values)
        self.answers = Answers(recording.interactions, self._ignore)

    def __getstate__(self) -> tuple[str, tuple[str, ...], frozenset[str], bool, Recording]:
        return self._path, self._secret_values, self._ignore, self.blocks_own_connections, self.recording

    def __setstate__(self, state: tuple[str, tuple[str, ...], frozenset[str], bool, Recording]) -> None:
        self._path, self._secret_values, self._ignore, self.blocks_own_connections, recording = state
        self._play(recording)

    @property
    def config(self) -> Mapping[str, JsonValue]:
        """The recorded config, with `****` in place of secrets; a read with it can be answered from the cassette."""
        return self.recording.config

    @property
    def clock(self) -> MockClock:
        """A clock that stands at the time of the recording, so that cursor windows are the same; waits take no time."""
        return FixedClock(self.recording.recorded_at)

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Answer all requests of this process inside the block, from the first response on, at the recording's time."""
        self.answers.rewind()
        with simulated(self, self.clock):
            yield

    def send(self, request: Request) -> Response:
        """Return the recorded response. Raises Unrecorded: when it is missing; names the nearest recorded request."""
        interaction = self.answers.find(request, self._secrets)
        if interaction is None:
            raise self._missing(request)
        return interaction.response(request)

    def _missing(self, request: Request) -> Unrecorded:
        missing = sent_identity(request, self._secrets, self._ignore)
        near = nearest(missing, self.answers.known)
        if near is None:
            return Unrecorded(f"{missing} is not in the cassette {self._path}, which is empty; record it again")
        differs = "; ".join(missing.differences(near))
        count = len(self.answers.known)
        return Unrecorded(
            f"{missing} is not among the {count} requests of the cassette {self._path}; the nearest is {near} "
            f"({differs}); record it again with `spark-cdk record`, or correct what requests this"
        )
