"""The base of all protocol messages: how their fields are read and written."""

from pydantic import BaseModel, ConfigDict


class WireModel(BaseModel):
    """A part of a message. Frozen; fields it does not know are ignored, fields that are None are not written.

    Python names are snake case throughout; where the wire spells a field otherwise, that is its alias, and both
    are understood.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="ignore", defer_build=True)
