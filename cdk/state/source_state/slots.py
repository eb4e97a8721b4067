"""Slots of sources, and what they are to Open Data Fabric: three texts. Several sources lie side by side, a slot each.

A text of version 1 is its own value, under its own kind. Anything else gets the suffix `+json` to its kind, and as its
value the canonical JSON of `{"value": ..., "version": ...}`. Other implementations carry both without knowing them.
Open Data Fabric, RFC 4: source state (there `source`, in today's schema `sourceName`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cdk.base.errors import BadState
from cdk.base.values import Stored
from cdk.state.log.canonical_json import dumps_canonical, loads_canonical
from cdk.state.log.session import StateSession
from cdk.state.log.slot_value import Kind, StateValue

ETAG = Kind("odf/etag")
"""A text that changes when the source does: an ETag, the name of the last file, `<height>@<hash>`."""

LAST_MODIFIED = Kind("odf/last-modified")
"""When the source last changed, as RFC 3339 writes moments."""

POLLING = "odf/polling"
"""What Open Data Fabric calls the source that a dataset polls (SetPollingSource)."""

_USE = "source:"
_SUFFIX = "+json"
_FIELDS = {"value", "version"}


def slot_of(source: str) -> str:
    """The slot of a source; `default` is the name for the only one. Raises BadState: the name is empty."""
    if not source:
        raise BadState("source", source, "a name, such as 'default'")
    return f"{_USE}{source}"


def source_of(slot: str) -> str | None:
    """The name of the source whose slot this is; None for other slots."""
    return slot.removeprefix(_USE) if slot.startswith(_USE) and slot != _USE else None


def read_slot(
    session: StateSession, source: str, kind: Kind, plain: Mapping[str, Callable[[str], Stored]] | None = None
) -> Stored:
    """The value of a source's slot in today's form of `kind`; None when there is nothing to show.

    plain: kinds of Open Data Fabric that are understood as well -> their text as a value of `kind`.
    Raises BadState: the slot holds another kind. Open Data Fabric lets one ignore it; but then everything would be
    read a second time, so here a person decides that, by resetting the slot or by another name for the source.
    """
    slot = slot_of(source)
    value = session.value(slot)
    if value is None:
        return None
    convert = (plain or {}).get(value.kind)
    if convert is None:
        return kind.read(value, slot)
    return convert(read_text(value, slot))


def read_text(value: StateValue, path: str) -> str:
    """The text of a plain kind. Raises BadState: it is no text, or of another version than 1."""
    if value.version != 1 or not isinstance(value.value, str):
        raise BadState(path, f"version {value.version} of {value.kind}: {value.value!r}", "version 1, a text")
    return value.value


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of one source as Open Data Fabric writes it. `value` is opaque to whoever does not know `kind`."""

    source_name: str
    kind: str
    value: str


def to_odf(source: str, value: StateValue) -> SourceState:
    """The three texts of a slot's value; `from_odf` gives back exactly what was given."""
    if _is_plain(value):
        return SourceState(source, value.kind, value.value)
    text = dumps_canonical({"value": value.value, "version": value.version}, slot_of(source)).decode()
    return SourceState(source, value.kind + _SUFFIX, text)


def from_odf(state: SourceState) -> StateValue:
    """The value of a slot; `to_odf` gives back exactly the texts that were given, also those of unknown kinds."""
    return _wrapped(state.kind, state.value) or StateValue(state.kind, 1, state.value)


def export_sources(session: StateSession) -> Sequence[SourceState]:
    """The states of all sources that a session sees, in order of their slots."""
    named = ((source_of(slot), session.value(slot)) for slot in session.slots)
    return [to_odf(source, value) for source, value in named if source is not None and value is not None]


def import_sources(session: StateSession, states: Iterable[SourceState]) -> None:
    """Have the next commit set the slots of these sources; others stay as they are."""
    for state in states:
        session.propose(slot_of(state.source_name), from_odf(state))


def _is_plain(value: StateValue) -> bool:
    """Whether the value can stand for itself: a text of version 1 that would not be taken for a wrapped one."""
    if value.version != 1 or not isinstance(value.value, str):
        return False
    return _wrapped(value.kind, value.value) is None


def _wrapped(kind: str, text: str) -> StateValue | None:
    """The value inside a wrapped text; None where `to_odf` cannot have written it."""
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
