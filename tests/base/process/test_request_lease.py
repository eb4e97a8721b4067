"""The requests that a run may send are lent to its tasks, and come back from them."""

import pytest

from cdk.base.process.request_lease import RequestLease, RequestsSpent


def test_what_a_task_does_not_send_others_may() -> None:
    lease = RequestLease(100)
    lent = lease.lend(2)

    assert (lent, lease.unsent) == (50, 50)
    lease.return_unsent(lent, 20)
    assert lease.unsent == 80
    # A task that has died may have sent all of them.
    lease.return_unsent(lease.lend(4), None)
    assert lease.unsent == 60


def test_the_last_requests_are_not_lent_one_by_one() -> None:
    lease = RequestLease(20)

    assert [lease.lend(100) for _ in range(4)] == [8, 8, 4, 0]


def test_a_lease_without_a_limit_only_counts() -> None:
    lease = RequestLease()
    lease.count()

    assert (lease.lend(2), lease.unsent, lease.sent) == (None, None, 1)


def test_no_more_requests_are_counted_than_may_be_sent() -> None:
    lease = RequestLease(2)
    lease.count()
    lease.count()

    with pytest.raises(RequestsSpent):
        lease.count()
    assert (lease.unsent, lease.sent) == (0, 2)
