"""What a retriever does when an API refuses its pages: start again, or request smaller pages or smaller windows."""

from functools import partial
from typing import Annotated, Literal

from msgspec import Meta

from cdk.base.errors import ManifestError
from cdk.declarative.model.component import Component
from cdk.declarative.model.context import BuildContext
from cdk.declarative.model.request_plug_points import PageRequests
from cdk.declarative.model.stream_plug_points import Incremental
from cdk.declarative.reading.page_size_reduction import Reduction
from cdk.declarative.reading.recovering_reader import Reset, Split


class PaginationResetLimits(Component):
    """When pagination starts again although the API does not ask for it.

    Example:
        type: PaginationResetLimits
        number_of_records: 10000
    """

    number_of_records: Annotated[int | None, Meta(ge=1)] = None
    """Number of records of a slice after which pagination starts again."""


class PaginationReset(Component):
    """Starts pagination again after a response with the action `RESET_PAGINATION`, or after a number of records.

    `SPLIT_USING_CURSOR` continues from the greatest cursor value that was read, so records must arrive in its order;
    those with that value are emitted twice. `RESET` reads the slice once more, so all of them are.

    Example:
        type: PaginationReset
        action: SPLIT_USING_CURSOR
        limits: {type: PaginationResetLimits, number_of_records: 10000}
    """

    action: Literal["SPLIT_USING_CURSOR", "RESET"]
    """Where reading continues: at the greatest cursor value that was read, or at the first page of the slice."""
    limits: PaginationResetLimits | None = None
    """The number of records after which pagination starts again; by default only a response starts it again."""

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

    reduction_factor: Annotated[float, Meta(gt=1)] = 2
    """The page size is divided by this factor."""
    minimum_page_size: Annotated[int, Meta(ge=1)] = 1
    """The smallest page size to request."""
    max_attempts: Annotated[int, Meta(ge=1)] = 5
    """Maximum number of consecutive reductions without a successful page."""
    backoff_seconds: Annotated[float, Meta(ge=0)] = 0.5
    """Wait before the page is requested again, in seconds, times the number of consecutive reductions."""
    retries_at_minimum_page_size: Annotated[int, Meta(ge=0)] = 0
    """How many more times a page of the smallest size is requested."""
    failure_message: str | None = None
    """Advice for the user that is added to the error if no page size succeeds."""
    reset_policy: Literal["NEVER", "AFTER_SUCCESSFUL_PAGE"] = "NEVER"
    """Whether the page after a successful one has the original size again."""

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

    failure_message: str | None = None
    """Advice for the user that is added to the error if a window cannot be split further."""
    min_split_window: str | None = None
    """A window of this length or less is not split, ISO 8601; at least `cursor_granularity`, which is the default."""

    def split(self, ctx: BuildContext, incremental: Incremental | None) -> Split:
        """Return how windows are split. Raises ManifestError: when there is no cursor with a granularity."""
        cursor = None if incremental is None else incremental.cursor
        if cursor is None or cursor.granularity is None:
            where = ctx.where(self, "type")
            raise ManifestError(f"{where}: splitting windows needs a DatetimeBasedCursor with `cursor_granularity`")
        smallest = ctx.duration(self, "min_split_window", None)
        return Split(partial(cursor.halves, smallest=smallest), self.failure_message or "")
