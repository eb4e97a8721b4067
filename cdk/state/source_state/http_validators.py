"""HttpProbe: what to tell a server about the last response, and what to learn from the new one. Knows no HTTP library.

HttpSnapshot is what travels to other processes, which ask in its place; what they learned comes back as a plain map.
"""

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, Self, TypeAlias

from cdk.base.times.clock import Clock, parse_timestamp, system_clock
from cdk.state.log.session import StateSession
from cdk.state.log.slot_value import StateValue
from cdk.state.source_state.slots import slot_of
from cdk.state.source_state.validators import UNBOUND, Validators, read_validators, to_value

Uncacheable: TypeAlias = Literal["read", "skip"]
"""What to do with a response that came without validators: ask for it in each run, or only when it has grown old."""

_DAY = timedelta(hours=24)


class HttpProbe:
    """Remembers for one source what its requests were answered. Safe to use from several threads; does not travel.

    before: request -> what is known of it; a request is told by its fingerprint. max_validator_age: how long a server
    is believed that says "not modified"; after that its response is read whole again. uncacheable: see there.

    What is learned counts from the next run on: within a run all tries of a request are asked in the same way.
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
        """The probe of a source, with what the session sees in its slot.

        Validators of Open Data Fabric (`odf/etag`, `odf/last-modified`) are taken for those of the first request.
        Raises BadState: the slot holds something else, or is damaged.
        """
        before = read_validators(session, source)
        return cls(before, max_validator_age=max_validator_age, uncacheable=uncacheable, clock=clock)

    def known(self, request: str) -> Validators | None:
        """What was known of a request when the run began."""
        with self._lock:
            if UNBOUND in self._before:
                unbound = self._before.pop(UNBOUND)
                self._before.setdefault(request, unbound)
            return self._before.get(request)

    def headers(self, request: str) -> Mapping[str, str]:
        """The header that makes a request conditional; empty where nothing is known, or what is known is too old.

        `If-None-Match` where there is an ETag, `If-Modified-Since` only where there is none (RFC 9110, section 13.1.3).
        """
        known = self.known(request)
        if known is None or not self._young(known):
            return {}
        if known.etag is not None:
            return {"If-None-Match": known.etag}
        return {} if known.last_modified is None else {"If-Modified-Since": known.last_modified}

    def skips(self, request: str) -> bool:
        """Whether a request need not be sent: its response had no validators, came not long ago, and may be skipped."""
        known = self.known(request)
        if self._uncacheable == "read" or known is None or not self._young(known):
            return False
        return known.etag is None and known.last_modified is None

    def unchanged(self, request: str, etag: str | None, last_modified: str | None) -> None:
        """Learn that a server said "not modified", with these headers, where it sent any."""
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
        """Learn from a whole response, and say whether its body is new. body: None where it is not held in memory."""
        known = self.known(request)
        if body is None:
            self._learn(request, Validators(etag, last_modified, read_at=self._now()))
            return True
        sha256 = hashlib.sha256(body).hexdigest()
        self._learn(request, Validators(etag, last_modified, sha256, len(body), self._now()))
        return known is None or known.sha256 != sha256

    @property
    def learned(self) -> Mapping[str, Validators]:
        """Request -> what was learned of it so far."""
        with self._lock:
            return dict(self._learned)

    def value(self) -> StateValue:
        """What the slot is to hold from now on.

        What was not asked for in this run stays as it is while it is young, and goes when it is too old to be sent.
        """
        with self._lock:
            young = {name: known for name, known in self._before.items() if name != UNBOUND and self._young(known)}
            return to_value({**young, **self._learned})

    def propose(self, session: StateSession, source: str = "default") -> None:
        """Have the next commit set the slot of a source, if anything is known.

        For a run that read all that it was answered, and once that is durable: what was answered counts as read.
        """
        value = self.value()
        if value.value["requests"]:
            session.propose(slot_of(source), value)

    def _learn(self, request: str, validators: Validators) -> None:
        with self._lock:
            self._learned[request] = validators

    def _young(self, known: Validators) -> bool:
        """Whether the server may still be believed. Not when it was read after now: then a clock is wrong."""
        read_at = parse_timestamp(known.read_at, ())
        return read_at is None or timedelta(0) <= self._clock() - read_at < self._max_age

    def _now(self) -> str:
        return self._clock().astimezone(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class HttpSnapshot:
    """What was known of a source's responses at one moment. Travels to whoever asks.

    known: request -> what is known of it. now: that moment, by the clock of who keeps the state, so that the clocks of
    other machines do not count. The others are those of HttpProbe.
    """

    known: Mapping[str, Validators]
    now: datetime
    max_validator_age: timedelta = _DAY
    uncacheable: Uncacheable = "read"

    def probe(self) -> HttpProbe:
        """A probe that knows this, for one piece of work."""
        return HttpProbe(
            self.known, max_validator_age=self.max_validator_age, uncacheable=self.uncacheable, clock=lambda: self.now
        )
