"""PageSizes: the page size to request while an API refuses pages as too large."""

from msgspec import Struct

from cdk.base.errors import TransientError
from cdk.base.logs import logger
from cdk.base.times.clock import Sleep
from cdk.base.values import JsonValue
from cdk.rest.errors.outcome import ReducePageSize


class Reduction(Struct, frozen=True):
    """How pages shrink.

    factor: the divisor of the size. minimum: the smallest size. max_reductions: the maximum number of consecutive
    reductions. wait_seconds: the wait before the first of them, twice that before the second, and so on.
    retries_at_minimum: how often a page of the smallest size is retried. restores_size: whether the next page has the
    initial size again. advice: for the reader of the error.
    """

    factor: float
    minimum: int
    max_reductions: int
    wait_seconds: float
    retries_at_minimum: int
    restores_size: bool
    advice: str
    sleep: Sleep


class PageSizes:
    """The page sizes of one slice. size: that of the next page; None if unknown."""

    __slots__ = ("_initial_size", "_reduction", "_reductions", "_retries", "reducible", "size")

    def __init__(self, reduction: Reduction | None, size: int | None) -> None:
        self.size = self._initial_size = size
        self.reducible = reduction is not None
        self._reduction, self._reductions, self._retries = reduction, 0, 0

    def resume(self, size: JsonValue) -> None:
        """Continue with the size to which an earlier attempt had reduced its pages, if it would have kept that size."""
        reduction = self._reduction
        if reduction is None or reduction.restores_size or type(size) is not int or self._initial_size is None:
            return
        if reduction.minimum <= size < self._initial_size:
            self.size = size

    def succeeded(self) -> None:
        """Reset the counts of reductions and retries after a page arrived."""
        self._reductions = self._retries = 0
        if self._reduction is not None and self._reduction.restores_size:
            self.size = self._initial_size

    def reduce(self, refused: ReducePageSize) -> None:
        """Wait, then request smaller pages.

        Raises TransientError: when pages cannot become smaller, or the attempts are used up.
        """
        reduction, size = self._reduction, self.size
        if reduction is None or size is None:
            raise refused
        smaller = max(reduction.minimum, int(size / reduction.factor))
        if smaller < size:
            if self._reductions == reduction.max_reductions:
                self._give_up(reduction, refused, f"after {self._reductions} consecutive reductions")
            self._reductions += 1
            self.size = smaller
        elif self._retries < reduction.retries_at_minimum:
            self._retries += 1
        else:
            self._give_up(reduction, refused, f"the smallest that minimum_page_size ({reduction.minimum}) allows")
        wait = reduction.wait_seconds * (self._reductions + self._retries)
        logger.info("%s; requesting %d records instead of %d in %.1f s", refused.message, self.size, size, wait)
        reduction.sleep(wait)

    def _give_up(self, reduction: Reduction, refused: ReducePageSize, why: str) -> None:
        advice = f" {reduction.advice}" if reduction.advice else ""
        text = f"the API refuses pages of {self.size} records, {why}: {refused.message}.{advice}"
        raise TransientError(text) from refused
