"""Runs: what is kept for the length of one, and who takes part in it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from cdk.base.process.concurrency import Learned
from cdk.base.run import RunScope, current_run, one_run, part_of
from cdk.engine.executors import Threads
from cdk.streams.read_slice import ReadPage


class Kept:
    """Something of a run."""


def test_a_run_makes_a_thing_once_and_another_run_makes_its_own() -> None:
    one, other = RunScope(), RunScope()

    with ThreadPoolExecutor(4) as pool:
        made = set(pool.map(lambda _: one.own(Kept), range(20)))

    assert made == {one.own(Kept)}
    assert other.own(Kept) not in made


def test_a_run_within_a_run_is_a_part_of_it() -> None:
    outside = current_run()
    with one_run():
        first = current_run()
        with one_run():
            assert current_run() is first
        assert current_run() is first is not outside
    with one_run():
        assert current_run() not in (first, outside)
    assert current_run() is outside


def test_threads_of_an_executor_take_part() -> None:
    def read(_: int) -> Iterator[ReadPage]:
        seen.add(current_run())
        yield ReadPage([], None)

    seen: set[RunScope] = set()
    with one_run():
        run = current_run()
        list(Threads(3, Learned(3))(iter(range(9)), read))

    assert seen == {run}


def test_another_process_joins_a_run_by_its_id_again_and_again() -> None:
    with part_of("first"):
        kept = current_run().own(Kept)
    with part_of("second"):
        other = current_run().own(Kept)
    with part_of("first"):
        assert current_run().own(Kept) is kept is not other


def test_what_works_for_a_run_in_its_own_process_is_that_run() -> None:
    with one_run():
        run = current_run()
        with part_of(run.id):
            assert current_run() is run


def test_a_process_forgets_runs_that_ended_long_ago() -> None:
    with part_of("old"):
        kept = current_run().own(Kept)
    for id in ("newer", "newest"):
        with part_of(id):
            pass
    with part_of("old"):
        assert current_run().own(Kept) is not kept
