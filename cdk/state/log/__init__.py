"""State between runs: an append-only log of records, each naming every slot."""

from cdk.state.log.intent import MarkedSink
from cdk.state.log.record import Slot, StateRecord
from cdk.state.log.retention import Retention
from cdk.state.log.session import Mode, StateSession, open_session
from cdk.state.log.state_log import StateLog
from cdk.state.log.value import Kind, StateValue

__all__ = [
    "Kind",
    "MarkedSink",
    "Mode",
    "Retention",
    "Slot",
    "StateLog",
    "StateRecord",
    "StateSession",
    "StateValue",
    "open_session",
]
