"""SourceState: what a slot of a source is to Open Data Fabric: three texts. Nothing is lost on the way, or back.

A text of version 1 is its own value, under its own kind. Anything else gets the suffix `+json` to its kind, and as its
value the canonical JSON of `{"value": ..., "version": ...}`. Other implementations carry both without knowing them.
Open Data Fabric, RFC 4: source state (there `source`, in today's schema `sourceName`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cdk.base.errors import BadState
from cdk.state.log.canonical_json import dumps_canonical, loads_canonical
from cdk.state.log.session import StateSession
from cdk.state.log.slot_value import StateValue
from cdk.state.source_state.slots import slot_of, source_of

_SUFFIX = "+json"
_FIELDS = {"value", "version"}


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
