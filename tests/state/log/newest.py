"""The newest record of a log, for tests of logs that have one."""

from cdk.state import StateLog, StateRecord


def newest(log: StateLog) -> StateRecord:
    head = log.head()
    assert head is not None
    return head
