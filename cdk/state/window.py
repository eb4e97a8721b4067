"""Windows: the ranges of a cursor that a stream is read in."""

from msgspec import Struct

from cdk.base.values import FieldValue


class Window(Struct, frozen=True):
    """A range of the cursor to request from the source: from `start` to `end`, in cursor units.

    `until` is where the next window starts. It equals `end` where windows touch, and is one granule after it where
    the cursor has a granularity. A window owns the records with `start <= value < until`; the last window owns
    everything from its start. `end` is None where the request has no upper bound.
    """

    start: FieldValue
    end: FieldValue = None
    until: FieldValue = None
    last: bool = True
