"""Runs: what is kept for the length of one, and who takes part in it."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context

from cdk.base.process.concurrency import Learned
from cdk.base.run import RunScope, current_run, one_run, part_of, setting
from cdk.engine.executors import Threads
from cdk.streams.page import ReadPage


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


NUMBER: ContextVar[int] = ContextVar("number", default=1)


def test_a_variable_has_its_value_in_a_block_and_the_earlier_one_behind_it() -> None:
    with setting(NUMBER, 2), setting(NUMBER, 3) as inner:
        assert (inner, NUMBER.get()) == (3, 3)

    assert NUMBER.get() == 1


def test_a_generator_may_be_closed_where_another_context_runs() -> None:
    def numbers() -> Generator[int, None, None]:
        with setting(NUMBER, 2):
            yield NUMBER.get()

    dropped = numbers()
    assert next(dropped) == 2

    copy_context().run(dropped.close)
