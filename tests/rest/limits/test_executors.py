"""Executors that read one API, against its clock. `make budgets` has a thousand of them."""

import pytest

from tests.rest.limits.executors import Executors, Load, loads, over


@pytest.mark.parametrize("load", loads(40).values(), ids=loads(40))
def test_executors_use_what_an_api_allows_and_no_more(load: Load) -> None:
    use = Executors(40, load).read()

    assert use.over == 0
    assert use.share >= 0.9
    # A task ends with its term, but for the page that it reads then.
    assert use.held <= 24 + 1.5 * max(load.latencies)


def test_a_call_that_comes_too_early_is_seen() -> None:
    assert over([0, 0, 5, 10, 12], [(2, 10.0)]) == 2
