"""What a run may do with what the last one left: remove what is gone, skip what was read."""

from cdk.state.handlers.intervals import Interval
from cdk.state.handlers.options import StatefulOptions
from cdk.state.handlers.redundant import Planned, RedundantRunSkipHandler
from cdk.state.handlers.removal_guards import RemovalRefused
from cdk.state.handlers.run import StatefulRun, stateful_run
from cdk.state.handlers.stale import EntitySink, ScopeReport, StaleEntityRemovalHandler

__all__ = [
    "EntitySink",
    "Interval",
    "Planned",
    "RedundantRunSkipHandler",
    "RemovalRefused",
    "ScopeReport",
    "StaleEntityRemovalHandler",
    "StatefulOptions",
    "StatefulRun",
    "stateful_run",
]
