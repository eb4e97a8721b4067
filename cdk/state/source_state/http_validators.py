"""HttpProbe: makes requests conditional on the last response, and learns from the new one. Uses no HTTP library.

HttpSnapshot is the form that is sent to other processes, which make the requests; they return what they learned as a
plain map.
"""

import hashlib
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, Self, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from cdk.base.times.clock import Clock, parse_timestamp, system_clock
from cdk.state.log.session import StateSession
from cdk.state.log.slot_value import StateValue
from cdk.state.source_state.slots import slot_of
from cdk.state.source_state.validators import UNBOUND, Validators, read_validators, to_value

Uncacheable: TypeAlias = Literal["read", "skip"]
"""For a response without validators: request it in every run, or only when the last one is too old."""

_DAY = timedelta(hours=24)


class HttpProbe:
    """The validators of one source's requests, before and during a run. Thread-safe, but not picklable.

    before: validators by request fingerprint. max_validator_age: how long "not modified" responses are trusted; after
    that, the whole response is requested again. uncacheable: see `Uncacheable`.

    Learned validators are used from the next run on: within a run, all attempts of a request are sent alike.
    """

    def __init__(
        self,
        before: Mapping[str, Validators] | None = None,
        *,
        max_validator_age: timedelta = _DAY,
        uncacheable: Uncacheable = "read",
        clock: Clock = system_clock,
    ) -> None:
        self._before = dict(before or {})
        self._learned: dict[str, Validators] = {}
        self._max_age, self._uncacheable, self._clock = max_validator_age, uncacheable, clock
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        session: StateSession,
        source: str = "default",
        *,
        max_validator_age: timedelta = _DAY,
        uncacheable: Uncacheable = "read",
        clock: Clock = system_clock,
    ) -> Self:
        """Load the probe of a source from its slot.

        Validators of Open Data Fabric (`odf/etag`, `odf/last-modified`) are used for the first request.
        Raises BadState: when the slot holds another kind or is damaged.
        """
        before = read_validators(session, source)
        return cls(before, max_validator_age=max_validator_age, uncacheable=uncacheable, clock=clock)

    def known(self, request: str) -> Validators | None:
        """Return what was known of a request when the run started."""
        with self._lock:
            if UNBOUND in self._before:
                self._before.setdefault(request, self._before.pop(UNBOUND))
            return self._before.get(request)

    def headers(self, request: str) -> Mapping[str, str]:
        """Return the header that makes a request conditional; empty if its validators are unknown or too old.

        `If-None-Match` if there is an ETag, otherwise `If-Modified-Since` (RFC 9110, section 13.1.3).
        """
        known = self.known(request)
        if known is None or not self._young(known):
            return {}
        if known.etag is not None:
            return {"If-None-Match": known.etag}
        return {} if known.last_modified is None else {"If-Modified-Since": known.last_modified}

    def skips(self, request: str) -> bool:
        """Whether to skip a request: its last response is recent and had no validators, and `uncacheable` is "skip"."""
        known = self.known(request)
        if self._uncacheable == "read" or known is None or not self._young(known):
            return False
        return known.etag is None and known.last_modified is None

    def unchanged(self, request: str, etag: str | None, last_modified: str | None) -> None:
        """Record a "not modified" response and its headers, None where missing."""
        known = self.known(request) or Validators()
        self._learn(
            request,
            replace(
                known,
                etag=etag or known.etag,
                last_modified=last_modified or known.last_modified,
                read_at=known.read_at or self._now(),
            ),
        )

    def learn(self, request: str, etag: str | None, last_modified: str | None, body: bytes | None) -> bool:
        """Record a complete response, and return whether its body is new. body: None if it is not held in memory."""
        known = self.known(request)
        if body is None:
            self._learn(request, Validators(etag, last_modified, read_at=self._now()))
            return True
        sha256 = hashlib.sha256(body).hexdigest()
        self._learn(request, Validators(etag, last_modified, sha256, len(body), self._now()))
        return known is None or known.sha256 != sha256

    @property
    def learned(self) -> Mapping[str, Validators]:
        """The validators learned so far in this run, by request."""
        with self._lock:
            return dict(self._learned)

    def value(self) -> StateValue:
        """Return the value for the slot.

        Validators of requests that this run did not make are kept, unless they are too old to be sent.
        """
        with self._lock:
            young = {name: known for name, known in self._before.items() if name != UNBOUND and self._young(known)}
            return to_value({**young, **self._learned})

    def propose(self, session: StateSession, source: str = "default") -> None:
        """Set the slot of a source with the next commit, if anything is known.

        Call it only if the run has read all responses, and once their data is durable: they then count as read.
        """
        value = self.value()
        if value.value["requests"]:
            session.propose(slot_of(source), value)

    def _learn(self, request: str, validators: Validators) -> None:
        with self._lock:
            self._learned[request] = validators

    def _young(self, known: Validators) -> bool:
        """Whether validators may still be used. False if `read_at` lies in the future, as a clock is then wrong."""
        read_at = parse_timestamp(known.read_at, ())
        return read_at is None or timedelta(0) <= self._clock() - read_at < self._max_age

    def _now(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="milliseconds")


class HttpSnapshot(Struct, frozen=True):
    """A picklable snapshot of what is known of a source's responses, for the processes that make the requests.

    known: validators by request. now: time of the snapshot by the clock of the process that owns the state, so that the
    clocks of other machines do not matter. The other attributes are as in HttpProbe.
    """

    known: Mapping[str, Validators]
    now: datetime
    max_validator_age: timedelta = _DAY
    uncacheable: Uncacheable = "read"

    def probe(self) -> HttpProbe:
        """Return a new probe with this knowledge, for one unit of work."""
        return HttpProbe(
            self.known, max_validator_age=self.max_validator_age, uncacheable=self.uncacheable, clock=lambda: self.now
        )
