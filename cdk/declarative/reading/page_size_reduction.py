"""PageSizes: the page size to request while an API refuses pages as too large."""

from dataclasses import dataclass

from cdk.base.errors import TransientError
from cdk.base.logs import logger
from cdk.base.times.clock import Sleep
from cdk.base.values import JsonValue
from cdk.rest.errors.outcome import ReducePageSize


@dataclass(frozen=True, slots=True)
class Reduction:
    """How pages shrink.

    factor: the divisor of the size. minimum: the smallest size. attempts: the maximum number of reductions in a row.
    wait: seconds before the first of them, twice that before the second, and so on. again: how often a page of the
    smallest size is retried. restores: whether the next page is large again. advice: for the reader of the error.
    """

    factor: float
    minimum: int
    attempts: int
    wait: float
    again: int
    restores: bool
    advice: str
    sleep: Sleep


class PageSizes:
    """The page sizes of one slice. size: that of the next page; None if unknown."""

    __slots__ = ("_again", "_reduced", "_reduction", "_whole", "reducible", "size")

    def __init__(self, reduction: Reduction | None, size: int | None) -> None:
        self.size = self._whole = size
        self.reducible = reduction is not None
        self._reduction, self._reduced, self._again = reduction, 0, 0

    def resume(self, size: JsonValue) -> None:
        """Continue with the size to which an earlier attempt had reduced its pages, if it would have kept that size."""
        reduction = self._reduction
        if reduction is None or reduction.restores or type(size) is not int or self._whole is None:
            return
        if reduction.minimum <= size < self._whole:
            self.size = size

    def succeeded(self) -> None:
        """Reset the counts of reductions and retries after a page arrived."""
        self._reduced = self._again = 0
        if self._reduction is not None and self._reduction.restores:
            self.size = self._whole

    def reduce(self, refused: ReducePageSize) -> None:
        """Wait, then request smaller pages.

        Raises TransientError: when pages cannot become smaller, or the attempts are used up.
        """
        reduction, size = self._reduction, self.size
        if reduction is None or size is None:
            raise refused
        smaller = max(reduction.minimum, int(size / reduction.factor))
        if smaller < size:
            if self._reduced == reduction.attempts:
                self._give_up(reduction, refused, f"after {self._reduced} consecutive reductions")
            self._reduced += 1
            self.size = smaller
        elif self._again < reduction.again:
            self._again += 1
        else:
            self._give_up(reduction, refused, f"the smallest that minimum_page_size ({reduction.minimum}) allows")
        wait = reduction.wait * (self._reduced + self._again)
        logger.info("%s; requesting %d records instead of %d in %.1f s", refused.message, self.size, size, wait)
        reduction.sleep(wait)

    def _give_up(self, reduction: Reduction, refused: ReducePageSize, why: str) -> None:
        advice = f" {reduction.advice}" if reduction.advice else ""
        raise TransientError(
            f"the API refuses pages of {self.size} records, {why}: {refused.message}.{advice}"
        ) from refused
