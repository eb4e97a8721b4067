"""State between runs: an append-only log of records, each naming every slot."""

from cdk.state.log.record import Slot, StateRecord
from cdk.state.log.retention import Retention
from cdk.state.log.session import Mode, StateSession, open_session
from cdk.state.log.sink_transaction import MarkedSink
from cdk.state.log.slot_value import Kind, StateValue
from cdk.state.log.state_log import StateLog

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
