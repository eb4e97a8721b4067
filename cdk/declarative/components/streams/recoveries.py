"""What a retriever does when an API refuses its pages: start again, or request smaller pages or smaller windows."""

from functools import partial
from typing import Literal

from pydantic import Field

from cdk.base.errors import ManifestError
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.plug_points import Incremental, PageRequests
from cdk.declarative.reading.page_size_reduction import Reduction
from cdk.declarative.reading.recovering_reader import Reset, Split


class PaginationResetLimits(Component):
    """When pagination starts again although the API does not ask for it.

    Example:
        type: PaginationResetLimits
        number_of_records: 10000
    """

    number_of_records: int | None = Field(
        None, ge=1, description="Number of records of a slice after which pagination starts again."
    )


class PaginationReset(Component):
    """Starts pagination again after a response with the action `RESET_PAGINATION`, or after a number of records.

    `SPLIT_USING_CURSOR` continues from the greatest cursor value that was read, so records must arrive in its order;
    those with that value are emitted twice. `RESET` reads the slice once more, so all of them are.

    Example:
        type: PaginationReset
        action: SPLIT_USING_CURSOR
        limits: {type: PaginationResetLimits, number_of_records: 10000}
    """

    action: Literal["SPLIT_USING_CURSOR", "RESET"] = Field(
        description="Where reading continues: at the greatest cursor value that was read, or at the first page of "
        "the slice."
    )
    limits: PaginationResetLimits | None = Field(
        None,
        description="The number of records after which pagination starts again; by default only a response starts it "
        "again.",
    )

    def reset(self, ctx: BuildContext, incremental: Incremental | None) -> Reset:
        """Return when pagination starts again. Raises ManifestError: when there is no cursor to continue from."""
        if self.action == "SPLIT_USING_CURSOR" and incremental is None:
            where = ctx.where(self, "action")
            raise ManifestError(f"{where}: SPLIT_USING_CURSOR needs `incremental_sync`; add it, or use RESET")
        return Reset(self.action, None if self.limits is None else self.limits.number_of_records)


class PageSizeReduction(Component):
    """Requests a page again with fewer records after a response with the action `REDUCE_PAGE_SIZE`.

    Example:
        type: PageSizeReduction
        reduction_factor: 2
        minimum_page_size: 10
    """

    reduction_factor: float = Field(2, gt=1, description="The page size is divided by this factor.")
    minimum_page_size: int = Field(1, ge=1, description="The smallest page size to request.")
    max_attempts: int = Field(
        5, ge=1, description="Maximum number of consecutive reductions without a successful page."
    )
    backoff_seconds: float = Field(
        0.5,
        ge=0,
        description="Wait before the page is requested again, in seconds, times the number of consecutive reductions.",
    )
    retries_at_minimum_page_size: int = Field(
        0, ge=0, description="How many more times a page of the smallest size is requested."
    )
    failure_message: str | None = Field(
        None, description="Advice for the user that is added to the error if no page size succeeds."
    )
    reset_policy: Literal["NEVER", "AFTER_SUCCESSFUL_PAGE"] = Field(
        "NEVER", description="Whether the page after a successful one has the original size again."
    )

    def reduction(self, ctx: BuildContext, pages: PageRequests) -> Reduction:
        """Return how pages shrink. Raises ManifestError: when there is no page size, or it cannot become smaller."""
        size = pages.strategy.size
        if size is None:
            where = ctx.where(self, "type")
            raise ManifestError(f"{where}: there is no page size to reduce; set page_size and page_size_option")
        if size <= self.minimum_page_size:
            where = ctx.where(self, "minimum_page_size")
            raise ManifestError(f"{where}: found {self.minimum_page_size}, expected less than the page size, {size}")
        return Reduction(
            self.reduction_factor,
            self.minimum_page_size,
            self.max_attempts,
            self.backoff_seconds,
            self.retries_at_minimum_page_size,
            self.reset_policy == "AFTER_SUCCESSFUL_PAGE",
            self.failure_message or "",
            ctx.runtime.sleep,
        )


class RequestWindowSplitting(Component):
    """Reads the cursor's window in halves after a response with the action `SPLIT_REQUEST_WINDOW`.

    Example:
        type: RequestWindowSplitting
        min_split_window: P1D
    """

    failure_message: str | None = Field(
        None, description="Advice for the user that is added to the error if a window cannot be split further."
    )
    min_split_window: str | None = Field(
        None,
        description="A window of this length or less is not split, ISO 8601; at least `cursor_granularity`, which is "
        "the default.",
    )

    def split(self, ctx: BuildContext, incremental: Incremental | None) -> Split:
        """Return how windows are split. Raises ManifestError: when there is no cursor with a granularity."""
        cursor = None if incremental is None else incremental.cursor
        if cursor is None or cursor.granularity is None:
            where = ctx.where(self, "type")
            raise ManifestError(f"{where}: splitting windows needs a DatetimeBasedCursor with `cursor_granularity`")
        smallest = ctx.duration(self, "min_split_window", None)
        return Split(partial(cursor.halves, smallest=smallest), self.failure_message or "")
