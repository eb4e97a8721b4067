"""PageWarnings: what the pages of a read warn of, once a stream."""

from typing import Protocol

from cdk.base.logs import FirstWarning, warn


class Warned(Protocol):
    """A page, or what a task brought of a slice; see `ReadPage`."""

    @property
    def warning(self) -> str: ...
    @property
    def doubt(self) -> str: ...
    @property
    def followed(self) -> bool: ...


class PageWarnings:
    """The first warning of a read is logged at once, and the first doubt in its end.

    resumed: the read goes on from a state.

    A doubt is why an only page may not be the last one, and means nothing where another page named a next one: many
    sources leave the field that names it out of a last page. For the same reason a read that goes on from a state has
    no doubts: most of these bring one page, and the first read of all has had its say.
    """

    def __init__(self, *, resumed: bool) -> None:
        self._warning, self._doubt, self._followed = FirstWarning(), "", resumed

    def add(self, read: Warned) -> None:
        """Take note of a page."""
        self._warning(read.warning)
        self._doubt = self._doubt or read.doubt
        self._followed = self._followed or read.followed

    def end(self) -> None:
        """Warn of what is still in doubt: all has been read."""
        if not self._followed:
            warn(self._doubt)
