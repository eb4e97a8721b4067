"""The test kit: read a stream in a test, mock its API, build its states."""

from cdk.base.process.concurrency import Learned
from cdk.engine.executors import Threads
from cdk.protocol import SyncMode
from cdk.testing.mock_api import MockApi
from cdk.testing.run import ReadResult, read
from cdk.testing.states import at, done, each, state

__all__ = ["Learned", "MockApi", "ReadResult", "SyncMode", "Threads", "at", "done", "each", "read", "state"]
