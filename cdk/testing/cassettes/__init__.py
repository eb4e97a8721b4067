"""Cassettes: real traffic of a connector, recorded once, which later answers it without the network."""

from cdk.testing.cassettes.recording import record
from cdk.testing.cassettes.replay import Cassette, Unrecorded

__all__ = ["Cassette", "Unrecorded", "record"]
