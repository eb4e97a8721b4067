"""Validators: a server's validators for its response to one request, and their form in slots.

Kind `cdk/http-validators`, version 1:

    {"requests": {FINGERPRINT: {"etag": ..., "last_modified": ..., "sha256": ..., "length": ..., "read_at": ...}}}

Header values are stored verbatim, including quotes and `W/`, and belong to one request: a different request starts
without validators. RFC 9110, section 8.8.
"""

from collections.abc import Mapping
from datetime import UTC
from email.utils import format_datetime, parsedate_to_datetime

from msgspec import Struct
from msgspec.structs import fields

from cdk.base.errors import BadState
from cdk.base.times.clock import parse_timestamp
from cdk.base.values import JsonValue
from cdk.state.log.session import StateSession
from cdk.state.log.slot_value import Kind, StateValue
from cdk.state.source_state.slots import ETAG, LAST_MODIFIED, read_slot, slot_of

KIND = Kind("cdk/http-validators")

UNBOUND = ""
"""The fingerprint of validators from Open Data Fabric, which does not bind them to a request."""


class Validators(Struct, frozen=True):
    """What is known about the last response to a request.

    etag, last_modified: the headers, verbatim; None if missing. sha256, length: hexadecimal digest and bytes of the
    body; None if it was not held in memory. read_at: when a body was last received, RFC 3339; None if unknown.
    """

    etag: str | None = None
    last_modified: str | None = None
    sha256: str | None = None
    length: int | None = None
    read_at: str | None = None


_NAMES = tuple(field.name for field in fields(Validators))


def read_validators(session: StateSession, source: str) -> dict[str, Validators]:
    """Return the validators by request from a slot of this kind, `odf/etag` or `odf/last-modified`.

    Raises BadState: when the slot holds another kind or is damaged.
    """
    plain = {ETAG.name: _of_etag, LAST_MODIFIED.name: _of_timestamp}
    return _read(read_slot(session, source, KIND, plain), slot_of(source))


def requests_of(value: StateValue, path: str) -> dict[str, Validators]:
    """Parse the validators by request from a value. Raises BadState: when it is of another kind or damaged."""
    return _read(KIND.read(value, path), path)


def to_value(known: Mapping[str, Validators]) -> StateValue:
    """Return the slot value for validators by request, whose order does not matter."""
    return KIND.of({"requests": {request: _json(validators) for request, validators in known.items()}})


def as_odf(value: StateValue) -> StateValue:
    """Return only the validator, as `odf/etag` or else `odf/last-modified`, for implementations that know only these.

    This loses the request, the digest and the age, which `to_odf` preserves.
    Raises BadState: when there is not exactly one request, or its response had no validator.
    """
    known = list(_read(KIND.read(value, "source state"), "source state").values())
    if len(known) != 1:
        raise BadState("source state requests", len(known), "one: Open Data Fabric has one state for a source")
    (validators,) = known
    if validators.etag is not None:
        return ETAG.of(validators.etag)
    if validators.last_modified is None:
        raise BadState("source state", _json(validators), "an ETag, or the timestamp of the last change")
    try:
        timestamp = parsedate_to_datetime(validators.last_modified)
    except ValueError:
        raise BadState("source state last_modified", validators.last_modified, "a date as in HTTP headers") from None
    return LAST_MODIFIED.of(timestamp.astimezone(UTC).isoformat().replace("+00:00", "Z"))


def _of_etag(text: str) -> JsonValue:
    return {"requests": {UNBOUND: {"etag": text}}}


def _of_timestamp(text: str) -> JsonValue:
    timestamp = parse_timestamp(text, ())
    if timestamp is None:
        raise BadState(LAST_MODIFIED.name, text, "a timestamp as in RFC 3339")
    # HTTP dates have whole seconds. Rounding down rereads a change within the same second instead of missing it.
    return {"requests": {UNBOUND: {"last_modified": format_datetime(timestamp.astimezone(UTC), usegmt=True)}}}


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
            raise BadState(f"{path}.{name}", value, "a number" if expected is int else "a string")
    if "read_at" in entry and parse_timestamp(entry["read_at"], ()) is None:
        raise BadState(f"{path}.read_at", entry["read_at"], "a timestamp as in RFC 3339")
    return Validators(**entry)
