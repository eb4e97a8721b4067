"""Slots of sources, and the two kinds that Open Data Fabric names. Several sources lie side by side, a slot each."""

from collections.abc import Callable, Mapping

from cdk.base.errors import BadState
from cdk.base.values import Stored
from cdk.state.log.session import StateSession
from cdk.state.log.slot_value import Kind, StateValue

ETAG = Kind("odf/etag")
"""A text that changes when the source does: an ETag, the name of the last file, `<height>@<hash>`."""

LAST_MODIFIED = Kind("odf/last-modified")
"""When the source last changed, as RFC 3339 writes moments."""

POLLING = "odf/polling"
"""What Open Data Fabric calls the source that a dataset polls (SetPollingSource)."""

_USE = "source:"


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
