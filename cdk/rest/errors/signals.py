"""Signals: responses that ask for pages to be read differently. Whoever reads pages acts on them, or lets them fail."""

from cdk.base.errors import FatalError


class PagingSignal(FatalError):
    """The same request will fail again, but the slice can be read with other requests."""


class ResetPagination(PagingSignal):
    """The pages of the slice are to be read again from the first."""


class ReducePageSize(PagingSignal):
    """The page is too large for the API: ask for fewer records."""

    failure_type = "config_error"


class SplitWindow(PagingSignal):
    """The window is too large for the API: ask for its halves."""
