"""Cursors of old custom components: fields that describe a `DatetimeBasedCursor` of the manifest."""

from cdk.compat.airbyte.requesting import RequestOptionsProvider


class DeclarativeCursor(RequestOptionsProvider):
    """A cursor that custom code writes as a whole. It can be imported, and not be used."""


class Cursor(DeclarativeCursor):
    """Another name for it."""


class DatetimeBasedCursor(DeclarativeCursor):
    """The manifest's cursor. A subclass may add to requests; windows and states stay ours."""
