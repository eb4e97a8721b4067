"""The slots of sources, one per source, and their conversion to Open Data Fabric's source state of three strings.

A string of version 1 is exported as it is, under its own kind. Any other value is exported as the canonical JSON of
`{"value": ..., "version": ...}`, with the suffix `+json` on its kind. Other implementations preserve both without
knowing them.
Open Data Fabric, RFC 4: source state (there `source`, in today's schema `sourceName`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from cdk.base.errors import BadState
from cdk.base.values import Stored
from cdk.state.log.canonical_json import dumps_canonical, loads_canonical
from cdk.state.log.session import StateSession
from cdk.state.log.slot_value import Kind, StateValue

ETAG = Kind("odf/etag")
"""A string that changes when the source does: an ETag, the name of the last file, `<height>@<hash>`."""

LAST_MODIFIED = Kind("odf/last-modified")
"""When the source last changed, as an RFC 3339 timestamp."""

POLLING = "odf/polling"
"""Open Data Fabric's name for the source that a dataset polls (SetPollingSource)."""

_USE = "source:"
_SUFFIX = "+json"
_FIELDS = {"value", "version"}


def slot_of(source: str) -> str:
    """Return the slot of a source; a single source is named `default`. Raises BadState: when the name is empty."""
    if not source:
        raise BadState("source", source, "a name, such as 'default'")
    return f"{_USE}{source}"


def source_of(slot: str) -> str | None:
    """Return the name of the source that a slot belongs to; None for other slots."""
    return slot.removeprefix(_USE) if slot.startswith(_USE) and slot != _USE else None


def read_slot(
    session: StateSession, source: str, kind: Kind, plain: Mapping[str, Callable[[str], Stored]] | None = None
) -> Stored:
    """Return the value of a source's slot in the current version of `kind`; None if the run sees no value.

    plain: maps further supported kinds, of Open Data Fabric, to functions that convert their string to a value of
    `kind`.
    Raises BadState: when the slot holds another kind. Open Data Fabric allows implementations to ignore an unknown
    kind, but everything would then be read a second time. Here, a person decides that by resetting the slot or by
    renaming the source.
    """
    slot = slot_of(source)
    value = session.value(slot)
    if value is None:
        return None
    convert = (plain or {}).get(value.kind)
    return kind.read(value, slot) if convert is None else convert(read_text(value, slot))


def read_text(value: StateValue, path: str) -> str:
    """Return the string of a plain kind. Raises BadState: when it is not a string, or not of version 1."""
    if value.version != 1 or not isinstance(value.value, str):
        raise BadState(path, f"version {value.version} of {value.kind}: {value.value!r}", "version 1, a string")
    return value.value


class SourceState(Struct, frozen=True):
    """The state of one source as Open Data Fabric defines it. `value` is opaque to code that does not know `kind`."""

    source_name: str
    kind: str
    value: str


def to_odf(source: str, value: StateValue) -> SourceState:
    """Convert a slot's value to Open Data Fabric's form; `from_odf` restores it exactly."""
    if _is_plain(value):
        return SourceState(source, value.kind, value.value)
    text = dumps_canonical({"value": value.value, "version": value.version}, slot_of(source)).decode()
    return SourceState(source, value.kind + _SUFFIX, text)


def from_odf(state: SourceState) -> StateValue:
    """Convert Open Data Fabric's form to a slot's value; `to_odf` restores it exactly, also for unknown kinds."""
    return _wrapped(state.kind, state.value) or StateValue(state.kind, 1, state.value)


def export_sources(session: StateSession) -> Sequence[SourceState]:
    """Return the states of all sources that a session sees, sorted by slot."""
    named = ((source_of(slot), session.value(slot)) for slot in session.slots)
    return [to_odf(source, value) for source, value in named if source is not None and value is not None]


def import_sources(session: StateSession, states: Iterable[SourceState]) -> None:
    """Set the slots of these sources with the next commit; other slots stay unchanged."""
    for state in states:
        session.propose(slot_of(state.source_name), from_odf(state))


def _is_plain(value: StateValue) -> bool:
    """Whether a value is exported unwrapped: a string of version 1 that cannot be mistaken for a wrapped value."""
    if value.version != 1 or not isinstance(value.value, str):
        return False
    return _wrapped(value.kind, value.value) is None


def _wrapped(kind: str, text: str) -> StateValue | None:
    """Return the value inside a wrapped string; None if `to_odf` cannot have written it."""
    if not kind.endswith(_SUFFIX):
        return None
    try:
        inner = loads_canonical(text.encode(), kind)
        if not isinstance(inner, dict) or set(inner) != _FIELDS or dumps_canonical(inner, kind).decode() != text:
            return None
    except (BadState, UnicodeEncodeError):
        return None
    version = inner["version"]
    if type(version) is not int:
        return None
    value = StateValue(kind.removesuffix(_SUFFIX), version, inner["value"])
    return None if _is_plain(value) else value
