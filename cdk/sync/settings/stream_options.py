"""Pipeline options for rows that the source no longer has, and for syncs that would bring nothing new.

The names are those of `cdk.state.StatefulOptions`, which documents them in detail.
"""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from cdk.base.times.duration_field import DurationField
from cdk.state.handlers.run import StatefulOptions


class RemoveStaleOptions(BaseModel):
    """What to do with a stream's rows that a complete read did not see.

    removal: whether they are flagged, deleted, or only counted. The other options are those of `StatefulOptions`. An
    overwrite, which keeps no rows of earlier reads, only takes `allow_empty` and the fail-safe, which otherwise only
    warns.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    removal: Literal["soft", "hard", "report"] = "soft"
    fail_safe_threshold: Annotated[float, Field(ge=0, le=100)] = 75.0
    fail_safe_min: Annotated[int, Field(ge=0)] = 5
    allow_empty: bool = False
    accept_removals: str | None = None

    def guards(self) -> StatefulOptions:
        """Return the options for the guards of `cdk.state.handlers`."""
        return StatefulOptions.model_validate({"enabled": True, **self.model_dump(exclude={"removal"})})


class SkipOptions(BaseModel):
    """Skip streams for which the window of the sync was read before.

    start_time, end_time: the window; by default the newest bucket that has ended and settled. The other options are
    those of `StatefulOptions`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    enabled: bool = True
    force_rerun: bool = False
    start_time: AwareDatetime | None = None
    end_time: AwareDatetime | None = None
    bucket_duration: Literal["HOUR", "DAY", "WEEK"] = "DAY"
    settle: DurationField = timedelta()

    @model_validator(mode="after")
    def _in_order(self) -> "SkipOptions":
        if self.start_time is not None and self.end_time is not None and self.start_time >= self.end_time:
            raise ValueError("expected a start_time before the end_time")
        return self

    def handled(self, *, ignore_old_state: bool) -> StatefulOptions:
        """Convert to options of `RedundantRunSkipHandler`. ignore_old_state: from the pipeline's `state`."""
        same = self.model_dump(include={"force_rerun", "bucket_duration", "settle"})
        return StatefulOptions(enabled=True, ignore_old_state=ignore_old_state, **same)
