"""Validators: what a server said about its response to one request, as slots keep it.

Kind `cdk/http-validators`, version 1:

    {"requests": {FINGERPRINT: {"etag": ..., "last_modified": ..., "sha256": ..., "length": ..., "read_at": ...}}}

Texts are kept as they came, quotes and `W/` included, and belong to one request: whoever asks for something else
starts without any. RFC 9110, section 8.8.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC
from email.utils import format_datetime, parsedate_to_datetime

from cdk.base.errors import BadState
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import JsonValue
from cdk.state.log.session import StateSession
from cdk.state.log.slot_value import Kind, StateValue
from cdk.state.source_state.slots import ETAG, LAST_MODIFIED, read_slot, slot_of

KIND = Kind("cdk/http-validators")

UNBOUND = ""
"""The fingerprint of validators that came from Open Data Fabric, which binds them to no request."""


@dataclass(frozen=True, slots=True)
class Validators:
    """What is known about the last response to a request.

    etag, last_modified: the headers, verbatim; None where there were none. sha256, length: of the body, in hexadecimal
    digits and bytes; None where it was not held in memory. read_at: when a body last came, RFC 3339; None: not known.
    """

    etag: str | None = None
    last_modified: str | None = None
    sha256: str | None = None
    length: int | None = None
    read_at: str | None = None


_NAMES = tuple(field.name for field in fields(Validators))


def read_validators(session: StateSession, source: str) -> dict[str, Validators]:
    """Request -> what is known of it, from a slot of this kind, `odf/etag` or `odf/last-modified`.

    Raises BadState: the slot holds something else, or is damaged.
    """
    plain = {ETAG.name: _of_etag, LAST_MODIFIED.name: _of_moment}
    return _read(read_slot(session, source, KIND, plain), slot_of(source))


def requests_of(value: StateValue, path: str) -> dict[str, Validators]:
    """Request -> what is known of it, from a value of this kind. Raises BadState: it is of another, or damaged."""
    return _read(KIND.read(value, path), path)


def to_value(known: Mapping[str, Validators]) -> StateValue:
    """The value of a slot that knows this; the order of the requests does not count."""
    return KIND.of({"requests": {request: _json(validators) for request, validators in known.items()}})


def as_odf(value: StateValue) -> StateValue:
    """The validator alone, as `odf/etag` or else `odf/last-modified`, for implementations that know only these.

    Lost are the request, the digest and the age; `to_odf` keeps them.
    Raises BadState: there is not exactly one request, or the server gave it no validator.
    """
    known = list(_read(KIND.read(value, "source state"), "source state").values())
    if len(known) != 1:
        raise BadState("source state requests", len(known), "one: Open Data Fabric has one state for a source")
    (validators,) = known
    if validators.etag is not None:
        return ETAG.of(validators.etag)
    if validators.last_modified is None:
        raise BadState("source state", _json(validators), "an ETag, or the moment of the last change")
    try:
        moment = parsedate_to_datetime(validators.last_modified)
    except ValueError:
        raise BadState("source state last_modified", validators.last_modified, "a date as HTTP writes it") from None
    return LAST_MODIFIED.of(moment.astimezone(UTC).isoformat().replace("+00:00", "Z"))


def _of_etag(text: str) -> JsonValue:
    return {"requests": {UNBOUND: {"etag": text}}}


def _of_moment(text: str) -> JsonValue:
    moment = parse_timestamp(text, ())
    if moment is None:
        raise BadState(LAST_MODIFIED.name, text, "a moment as RFC 3339 writes it")
    # HTTP counts in seconds; rounded down, so that a change in the same second is read again rather than missed.
    return {"requests": {UNBOUND: {"last_modified": format_datetime(moment.astimezone(UTC), usegmt=True)}}}


def _json(known: Validators) -> JsonValue:
    fields = {name: getattr(known, name) for name in _NAMES}
    return {name: value for name, value in fields.items() if value is not None}


def _read(value: JsonValue, path: str) -> dict[str, Validators]:
    if value is None:
        return {}
    requests = value.get("requests") if isinstance(value, dict) else None
    if not isinstance(requests, dict):
        raise BadState(path, value, "{'requests': {...}}")
    return {request: _validators(entry, f"{path} requests.{request}") for request, entry in requests.items()}


def _validators(entry: JsonValue, path: str) -> Validators:
    if not isinstance(entry, dict) or not set(entry) <= set(_NAMES):
        raise BadState(path, entry, f"an object with some of {', '.join(_NAMES)}")
    for name, value in entry.items():
        expected = int if name == "length" else str
        if type(value) is not expected:
            raise BadState(f"{path}.{name}", value, "a number" if expected is int else "a text")
    if "read_at" in entry and parse_timestamp(entry["read_at"], ()) is None:
        raise BadState(f"{path}.read_at", entry["read_at"], "a moment as RFC 3339 writes it")
    return Validators(**entry)
