"""The base class of all protocol messages: how fields are parsed and serialized."""

import msgspec


class WireModel(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a message. Ignores unknown fields when it is parsed; omits fields that are None when written.

    Python names are snake case throughout. Where the wire spells a field differently, `msgspec.field` names it.
    A default other than None is made by a function: msgspec omits a field that equals its default value, and the wire
    has these fields always.
    """
