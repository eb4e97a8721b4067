"""The test kit: read a stream in a test, mock its API, build its states."""

from cdk.testing.mock_api import MockApi
from cdk.testing.run import Run, read
from cdk.testing.states import at, done, each, state

__all__ = ["MockApi", "Run", "at", "done", "each", "read", "state"]
