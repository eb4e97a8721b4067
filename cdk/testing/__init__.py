"""The test kit: read a connector in a test, simulate its API and the time, build its states.

Names are imported at first use, since pytest loads the plugin of this package in every run.
"""

from typing import TYPE_CHECKING

from cdk.base.first_use import lazy_names

if TYPE_CHECKING:  # importing them at run time would import the engine
    from cdk.protocol.catalog import SyncMode
    from cdk.testing.cassettes.replay import Cassette, Unrecorded
    from cdk.testing.conformance.hostile_world import HostileWorld
    from cdk.testing.conformance.subject import Nonconforming
    from cdk.testing.conformance.suite import ConnectorSuite, SparkConnectorSuite
    from cdk.testing.mock_api import MockApi
    from cdk.testing.routes import Route, UnexpectedRequest
    from cdk.testing.run import ReadResult, read
    from cdk.testing.simulation import MockClock, simulated
    from cdk.testing.simulator.records import World
    from cdk.testing.simulator.simulator import Simulator
    from cdk.testing.snapshots import assert_snapshot
    from cdk.testing.states import at, done, each, state, state_differences

__all__ = [
    "Cassette",
    "ConnectorSuite",
    "HostileWorld",
    "MockApi",
    "MockClock",
    "Nonconforming",
    "ReadResult",
    "Route",
    "Simulator",
    "SparkConnectorSuite",
    "SyncMode",
    "UnexpectedRequest",
    "Unrecorded",
    "World",
    "assert_snapshot",
    "at",
    "done",
    "each",
    "read",
    "simulated",
    "state",
    "state_differences",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__)
