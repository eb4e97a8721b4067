"""The base class of all protocol messages: how fields are parsed and serialized."""

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """A part of a message. Frozen; ignores unknown fields when it is parsed; omits fields that are None when written.

    Python names are snake case throughout. Where the wire spells a field differently, that spelling is its alias;
    parsing accepts both.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="ignore", defer_build=True)
