"""Cassettes: a connector's real traffic, recorded once and replayed later without the network."""

from cdk.testing.cassettes.recording import record
from cdk.testing.cassettes.replay import Cassette, Unrecorded

__all__ = ["Cassette", "Unrecorded", "record"]
