"""Worlds in time that have a name: each lost or doubled rows once, and shows at once where one does again."""

from collections.abc import Callable, Sequence

import pytest

from cdk import Json
from cdk.lake.parquet.writer import DEFAULT_LIMITS
from tests.worlds.test_times import FIRST, OPEN, SECOND, THIRD, Times

Records = Sequence[tuple[Json, int, int, Json]]
MERGED, APPENDED = ("Counted", "append_dedup"), ("Counted", "append")
WHOLE, REPLACED = ("Whole", "append_dedup"), ("Whole", "overwrite")
THREE: Records = [(0, 1, 0, {}), (1, 1, 0, {}), (2, 1, 0, {})]
IN_PLACES: Records = [(id, 1, 0, {}) for id in (0, 1, 2, 3, 4) for _ in range(2)]
NUMBERS: Records = [(0, 1, 0, {"a": 1}), (1, 1, 0, {"a": 2})]


def begin(world: Times, mode: tuple[str, str], records: Records, more: str = "") -> None:
    """A first sync has read some records, all on one page."""
    world.begin(mode, 0, None, "evolve", more, limits=DEFAULT_LIMITS, beside=False, records=list(records), first=5)


def a_merge_after_a_deletion_by_vector(world: Times) -> None:
    begin(world, MERGED, THREE)
    world.somebody("delete by vector", 0)
    world.put([(1, 1, 0, {"a": 1})])
    world.sync(5)


def a_pipeline_that_was_renamed(world: Times) -> None:
    begin(world, APPENDED, THREE)
    world.sync_under_another_name(5)


def rows_of_a_sync_of_which_nobody_says_how_far_it_read(world: Times) -> None:
    begin(world, APPENDED, THREE)
    world.sync_without("both")


def an_overwrite_while_somebody_joins_files(world: Times) -> None:
    begin(world, REPLACED, THREE)
    world.sync_while_somebody_joins_files(5, ("tasks", 0), vacuum=False)


def a_column_becomes_wider_while_somebody_joins_files(world: Times) -> None:
    begin(world, APPENDED, NUMBERS)
    world.declare("a", 1)
    world.put([(2, 1, 0, {"a": 0.5})])
    world.sync_while_somebody_joins_files(5, ("request", 0), vacuum=False)


def a_column_becomes_wider_beside_a_history(world: Times) -> None:
    begin(world, MERGED, NUMBERS, "history")
    world.declare("a", 1)
    world.sync(5)
    world.sync(5)


def rows_without_a_key_come_again(world: Times) -> None:
    begin(world, WHOLE, [(None, 1, 0, {}), (1, 1, 0, {})])
    world.sync(5)


def somebody_adds_the_column_of_a_field_that_rows_without_a_key_have(world: Times) -> None:
    records: Records = [(None, 0, 0, {"a": "x"}), (None, 0, 0, {"a": 1}), (None, 0, 0, {"a": None}), ("A7", 0, 0, {})]
    world.begin(WHOLE, 0, None, "freeze", "", limits=DEFAULT_LIMITS, beside=False, records=list(records), first=5)
    world.somebody("add a column", 1)
    world.sync(5)


def somebody_adds_a_column_of_objects_that_rows_without_a_key_have(world: Times) -> None:
    records: Records = [(None, 0, 0, {"c": {"b": 2}}), (None, 0, 0, {"c": "x"}), (None, 0, 0, {"c": None})]
    world.begin(WHOLE, 0, None, "freeze", "", limits=DEFAULT_LIMITS, beside=False, records=list(records), first=5)
    world.somebody("add a column", 7)
    world.sync(5)


def two_pipelines_bring_the_same_new_key(world: Times) -> None:
    begin(world, MERGED, THREE)
    world.sync_while_another_pipeline_syncs(5, ("tasks", 0), new=True)


def another_pipeline_reads_what_a_cut_sync_has_read(world: Times) -> None:
    begin(world, WHOLE, THREE, more="hard")
    world.sync_that_is_cut(1, 1)
    world.sync_under_another_name(1)
    for _ in range(2):
        world.sync(1)
        world.nothing_is_there_twice_and_what_is_there_is_whole()


def a_renamed_pipeline_removes_what_is_gone(world: Times) -> None:
    begin(world, WHOLE, THREE, more="hard")
    for name in (SECOND, THIRD):
        world.take_away(0)
        world.sync_under_another_name(5, name)
        world.nothing_is_there_twice_and_what_is_there_is_whole()


def a_person_goes_back_to_a_cut_read_after_a_later_one(world: Times, verb: str = "rollback") -> None:
    """The rest of that read does not see the rows that it had read before it was cut, and the later one after it."""
    begin(world, WHOLE, THREE, more="hard")
    world.sync_that_is_cut(1, 1)
    for _ in range(2):
        world.sync(1)
    # A state of its first page and the one after it.
    world.edit_state(FIRST, verb, 6)
    assert world.model.readings[FIRST].edited
    for _ in range(2):
        world.sync(1)
        world.nothing_is_there_twice_and_what_is_there_is_whole()


def a_person_sets_the_state_of_a_cut_read_after_a_later_one(world: Times) -> None:
    a_person_goes_back_to_a_cut_read_after_a_later_one(world, "set")


def a_person_goes_back_to_a_cut_read_of_windows(world: Times) -> None:
    begin(world, ("DatedParts", "append_dedup"), [(id, 24, 0, {}) for id in range(5)], more="history")
    world.put([(id, 24, 0, {}) for id in range(5)])
    world.sync_that_is_cut(1, 3)
    world.sync(1)
    world.put([(id, 24, 0, {}) for id in range(3)])
    for which in (4, 1):
        world.edit_state(FIRST, "rollback", which)
        world.sync(1)
        world.nothing_is_there_twice_and_what_is_there_is_whole()


def the_key_is_another_than_that_of_rows_whose_state_was_reset(world: Times) -> None:
    begin(world, MERGED, THREE)
    world.sync(1)
    for verb in ("reset", "set"):
        world.edit_state(FIRST, verb, 1)
        world.sync_with_another_key(SECOND)


def a_history_is_restored_that_two_more_pipelines_fill(world: Times) -> None:
    begin(world, ("Whole", "append_dedup"), [(0, 0, 0, {})], more="history")
    world.sync(1)
    world.sync_under_another_name(1, THIRD)
    world.sync_while_somebody_restores_the_history(1, ("tasks", 0), 5)
    world.sync(1)
    world.sync_while_another_pipeline_syncs(1, ("tasks", 0), new=False, others=(SECOND, THIRD))


def files_vanish_while_they_become_wider(world: Times) -> None:
    begin(world, ("Dated", "append_dedup"), [(0, 1, 0, {})])
    # Each day is a slice of its own, and its task finds the type that it needs.
    world.put([(0, 1, 0, {"a": {"a": 1}}), (4, 24, 0, {"c": 1}), (4, 24, 2, {"c": {"a": 1}, "a": {"a": 1}})])
    world.sync_while_somebody_joins_files(5, ("tasks", 2), vacuum=True)
    world.sync(5)


def files_vanish_before_rows_are_counted_that_may_leave(world: Times) -> None:
    begin(world, WHOLE, THREE, "soft")
    world.sync_while_somebody_joins_files(5, ("tasks", 0), vacuum=True)


def files_vanish_while_a_task_writes_others(world: Times) -> None:
    # A task reads all pages, and its file has been begun when the second one is asked for.
    world.begin(WHOLE, 30, None, "evolve", "", limits=OPEN, beside=False, records=list(THREE), first=0)
    world.sync_while_somebody_joins_files(1, ("request", 1), vacuum=True)
    assert world.settled


def a_first_commit_is_refused_and_somebody_adds_rows(world: Times) -> None:
    world.begin(WHOLE, 0, None, "freeze", "", limits=DEFAULT_LIMITS, beside=False, records=[(0, 0, 0, {})] * 2, first=0)
    world.take_away(0)
    world.sync_while_somebody(1, ("tasks", 0), "constrain", 0)
    world.sync_while_somebody_joins_files(1, ("tasks", 0), vacuum=False)


def folders_of_another_writer_are_merged_into(world: Times) -> None:
    world.begin(MERGED, 0, "place", "evolve", "", limits=DEFAULT_LIMITS, beside=False, records=IN_PLACES, first=5)
    world.somebody("optimize", 0)
    world.put(IN_PLACES)
    world.sync(5)


def a_constraint_comes_before_a_generation_with_another_type(world: Times) -> None:
    begin(world, ("Unresumable", "overwrite"), [(0, 1, 0, {"b": 0.5})])
    world.put([(0, 1, 0, {"b": True})])
    world.sync_while_somebody(1, ("tasks", 0), "constrain", 9)


def a_history_loses_its_missing_files_while_somebody_joins_others(world: Times) -> None:
    begin(
        world, ("Unresumable", "append_dedup"), [(0, 0, 0, {}), (0, 0, 0, {"a": 0.5}), (0, 0, 0, {"b": 1})], "history"
    )
    world.sync(2)
    world.take_away(2)
    world.somebody("vacuum", 0)
    for _ in range(3):
        world.sync(1)
        world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.restore(0)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.put([(0, 0, 0, {}), (0, 0, 1, {}), ("A7", 0, 0, {"b": 0.5}), (0, 24, 2, {"b": 0.5, "a": {"a": 1}})])
    world.sync_while_somebody_joins_files(1, ("request", 0), vacuum=True)


def a_history_is_restored_to_before_all_states_that_are_retained(world: Times) -> None:
    begin(world, WHOLE, [(0, 0, 0, {})] * 4, "history")
    for _ in range(4):
        world.sync(1)
    world.sync_while_somebody_restores_the_history(1, ("tasks", 0), 1)


def a_history_gets_rows_anew_whose_column_somebody_has_narrowed(world: Times) -> None:
    begin(world, MERGED, [(0, 0, 0, {}), (0, 0, 0, {"a": {"a": 1}})], "history")
    world.somebody("overwrite", 2)
    world.sync_while_somebody_restores_the_history(1, ("tasks", 0), 1)


def a_sync_that_adds_a_column_goes_on_without_the_history_that_somebody_restored(world: Times) -> None:
    world.begin(
        WHOLE, 30, None, "evolve", "history", limits=DEFAULT_LIMITS, beside=False, records=[(0, 0, 0, {})], first=1
    )
    world.put([(0, 0, 0, {"a": {"a": 1}}), (0, 0, 2, {"a": None})])
    world.sync_while_somebody_restores_the_history(1, ("tasks", 0), 6)


def a_table_is_restored_right_before_a_commit(world: Times) -> None:
    begin(world, APPENDED, THREE)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.put([(3, 1, 0, {})])
    world.sync(5)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.put([(4, 1, 0, {})])
    world.sync_while_somebody_restores(5, ("tasks", 0), 0)
    assert not world.settled
    world.sync(5)


def a_table_is_restored_to_rows_without_a_column_right_before_a_merge(world: Times) -> None:
    """To rows of an older state, then to those of the same."""
    begin(world, ("Counted", "append_dedup"), [(0, 0, 0, {})])
    world.sync(1)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.put([(0, 0, 0, {})])
    world.sync(1)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    for which in (0, 9):
        world.somebody("add a column", 0)
        world.nothing_is_there_twice_and_what_is_there_is_whole()
        world.put([(0, 0, 0, {})])
        world.sync_while_somebody_restores(1, ("tasks", 0), which)
        assert not world.settled
        world.sync(1)
        world.nothing_is_there_twice_and_what_is_there_is_whole()


def a_table_is_restored_to_a_narrower_column_right_before_a_merge(world: Times) -> None:
    begin(world, MERGED, [(0, 0, 0, {"b": True})])
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.put([(0, 0, 0, {"b": {"a": 1}})])
    world.sync_under_another_name(1)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.sync_while_somebody_restores(1, ("tasks", 0), 0)
    assert not world.settled
    world.sync(1)


def a_table_is_restored_to_a_narrower_column_right_before_it_is_added(world: Times) -> None:
    """Somebody has written the table without the column, and takes that back while tasks read wider values."""
    begin(world, MERGED, [(0, 0, 0, {}), (1, 0, 0, {"b": True})])  # the table's last column
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.put([(2, 0, 0, {"b": "x"})])
    world.somebody("overwrite", 5)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.sync_while_somebody_restores(5, ("tasks", 0), 0)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.sync(5)


def a_table_is_restored_to_rows_without_a_column_right_before_an_append(world: Times) -> None:
    """Others have added the column, so that the rows that it goes back to are of the same state."""
    begin(world, APPENDED, THREE)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.somebody("add a column", 0)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.put([(3, 1, 0, {"d": "x"})])
    world.sync_while_somebody_restores(5, ("tasks", 0), 9)
    assert not world.settled
    world.sync(5)


def another_pipeline_adds_the_same_column_with_another_type(world: Times) -> None:
    begin(world, ("Ordered", "append_dedup"), [(0, 0, 0, {})] * 2)
    world.sync_under_another_name(1)
    world.put([(0, 0, 0, {}), (0, 24, 0, {"a": 1}), (0, 24, 0, {"a": "x"}), (0, 0, 0, {})])
    world.sync_while_another_pipeline_syncs(1, ("tasks", 0), new=False)
    assert world.settled


def files_vanish_that_were_written_again_for_a_wider_column(world: Times) -> None:
    mode = ("Counted", "append_dedup")
    first = [(0, 0, 0, {"a": 2**40})]
    world.begin(mode, 0, "part", "evolve", "", limits=DEFAULT_LIMITS, beside=False, records=first, first=5)
    world.declare("a", 1)
    world.put([(0, 0, 0, {})])
    world.sync_while_somebody_joins_files(1, ("tasks", 1), vacuum=True)
    assert world.settled


def another_pipeline_widens_a_column_of_the_history(world: Times) -> None:
    begin(world, MERGED, [(0, 1, 0, {"a": 1})], "history")
    world.put([(0, 1, 0, {"a": 0.5}), (0, 1, 0, {})])
    world.sync_while_another_pipeline_syncs(1, ("tasks", 0), new=False)


def others_append_all_the_while(world: Times) -> None:
    begin(world, APPENDED, THREE)
    world.put([(id, 1, 0, {}) for id in (3, 4, 0, 1)])
    world.sync_while_neighbours_append_all_the_while(1)
    assert world.settled


def somebody_joins_the_files_of_a_table_with_vectors_while_nothing_is_new(world: Times) -> None:
    begin(world, MERGED, THREE)
    world.somebody("delete by vector", 0)
    for _ in range(30):
        world.somebody("append", 0)
    world.sync_while_somebody_joins_files(5, ("request", 0), vacuum=False)


def three_pipelines_bring_the_same_new_key(world: Times) -> None:
    begin(world, MERGED, THREE)
    world.sync_while_another_pipeline_syncs(5, ("tasks", 0), new=True, others=(SECOND, THIRD))
    assert world.settled


def the_key_is_another_than_that_of_the_rows(world: Times) -> None:
    begin(world, MERGED, THREE)
    for name in (FIRST, SECOND):
        world.sync_with_another_key(name)
    world.sync(5)


def a_record_of_the_future_comes_with_each_window_until_its_time_has_come(world: Times) -> None:
    begin(world, ("Unfiltered", "append"), [(0, 1, 0, {}), (1, 1, 2, {})])
    world.put([(2, 24, 0, {}), (3, 24, 2, {}), (4, 0, 0, {})])
    world.sync_that_is_cut(2, 3)
    world.put([(5, 24, 0, {})])
    for _ in range(4):
        world.sync(2)
        world.nothing_is_there_twice_and_what_is_there_is_whole()
        world.put([(6, 24, 0, {})])


def somebody_drops_a_constraint_after_it_has_refused_rows(world: Times) -> None:
    mode = ("Divided", "append_dedup")
    world.begin(mode, 0, None, "evolve", "", limits=DEFAULT_LIMITS, beside=True, records=list(THREE), first=1)
    world.somebody("constrain", 0)
    world.put(list(THREE))
    # The stream beside goes on meanwhile.
    world.sync_while_somebody(3, ("tasks", 3), "constrain", 1)


def a_table_is_restored_to_a_cut_sync_and_more_has_come_into_its_windows(world: Times) -> None:
    records: Records = [(0, 0, 0, {}), (0, 1, 0, {}), (2, 24, 1, {}), (0, 24, 2, {}), (3, 24, 0, {})]
    mode = ("DatedParts", "append")
    world.begin(mode, 0, None, "evolve", "", limits=DEFAULT_LIMITS, beside=False, records=records, first=0)
    # The last window of a part is read, and some before it are not.
    world.sync_while_neighbours_append_all_the_while(5)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.sync(2)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.put([(id, 1, 0, {}) for id in range(5)])
    world.restore(0)
    for _ in range(2):
        world.sync(1)
        world.nothing_is_there_twice_and_what_is_there_is_whole()


def a_table_is_restored_to_a_cut_sync_and_a_record_has_left_since(world: Times) -> None:
    mode = ("Divided", "overwrite")
    records: Records = [(0, 0, 0, {})] * 4
    world.begin(mode, 0, None, "evolve", "", limits=DEFAULT_LIMITS, beside=False, records=list(records), first=0)
    world.put([(0, 0, 0, {}), (0, 0, 0, {}), (4, 0, 0, {})])
    for size, request in ((1, 6), (3, 2), (2, 6)):
        world.sync_that_is_cut(size, request)
        world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.take_away(6)
    world.sync_while_somebody_restores(4, ("request", 0), 2)
    for _ in range(2):
        world.sync(3)
        world.nothing_is_there_twice_and_what_is_there_is_whole()


def a_person_resets_a_part_of_an_interrupted_overwrite(world: Times, verb: str = "reset a part") -> None:
    """Rows that wait to become visible are not read once more beside themselves."""
    records: Records = [(id, 1, 0, {}) for id in range(6)]
    world.begin(
        ("Divided", "overwrite"), 0, None, "evolve", "", limits=DEFAULT_LIMITS, beside=False, records=records, first=0
    )
    world.sync_that_is_cut(1, 5)
    for which in range(3):
        world.edit_state(FIRST, verb, which)
    world.sync(5)


def a_person_sets_an_interrupted_overwrite_to_an_earlier_page(world: Times) -> None:
    a_person_resets_a_part_of_an_interrupted_overwrite(world, "set")


def a_table_is_restored_to_before_a_fork(world: Times) -> None:
    begin(world, APPENDED, THREE)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.fork(SECOND)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.restore(9)
    world.sync_under_another_name(5)
    world.nothing_is_there_twice_and_what_is_there_is_whole()
    world.fork(SECOND)
    world.put(THREE)
    world.sync(5)
    world.sync_under_another_name(5)


def a_person_moves_the_state_of_an_append(world: Times) -> None:
    """What is read once more is there once more, and no more often."""
    begin(world, ("DatedParts", "append"), THREE)
    for verb in ("rewind", "reset a part", "rollback"):
        world.edit_state(FIRST, verb, 1)
        world.put(THREE[:1])
        world.sync_that_is_cut(1, 2)
        world.edit_state(FIRST, verb, 1)
        world.sync(2)
        world.nothing_is_there_twice_and_what_is_there_is_whole()


def a_person_moves_the_state_while_a_sync_runs(world: Times) -> None:
    """The sync writes nothing more, and the next one goes on from where the person said."""
    begin(world, ("Dated", "append_dedup"), [(id, 24, 0, {}) for id in range(2)], "history")
    for verb in ("rewind", "rollback", "set", "reset"):
        world.put([(0, 24, 0, {})])
        world.nothing_is_there_twice_and_what_is_there_is_whole()
        world.sync_while_a_person_moves_its_state(1, ("tasks", 1), verb, 1)
        assert not world.settled
        world.sync(2)
        assert world.settled


def a_person_moves_the_state_while_an_append_runs(world: Times) -> None:
    begin(world, APPENDED, THREE)
    for verb in ("rewind", "reset"):
        world.put(THREE)
        world.sync_while_a_person_moves_its_state(1, ("tasks", 0), verb, 1)
        world.sync(2)
        world.nothing_is_there_twice_and_what_is_there_is_whole()


WORLDS = [
    a_merge_after_a_deletion_by_vector,
    a_pipeline_that_was_renamed,
    rows_of_a_sync_of_which_nobody_says_how_far_it_read,
    an_overwrite_while_somebody_joins_files,
    a_column_becomes_wider_while_somebody_joins_files,
    a_column_becomes_wider_beside_a_history,
    rows_without_a_key_come_again,
    somebody_adds_the_column_of_a_field_that_rows_without_a_key_have,
    somebody_adds_a_column_of_objects_that_rows_without_a_key_have,
    two_pipelines_bring_the_same_new_key,
    another_pipeline_reads_what_a_cut_sync_has_read,
    a_renamed_pipeline_removes_what_is_gone,
    a_person_goes_back_to_a_cut_read_after_a_later_one,
    a_person_sets_the_state_of_a_cut_read_after_a_later_one,
    a_person_goes_back_to_a_cut_read_of_windows,
    the_key_is_another_than_that_of_rows_whose_state_was_reset,
    a_history_is_restored_that_two_more_pipelines_fill,
    files_vanish_while_they_become_wider,
    files_vanish_before_rows_are_counted_that_may_leave,
    files_vanish_while_a_task_writes_others,
    a_first_commit_is_refused_and_somebody_adds_rows,
    folders_of_another_writer_are_merged_into,
    a_constraint_comes_before_a_generation_with_another_type,
    a_history_loses_its_missing_files_while_somebody_joins_others,
    a_history_is_restored_to_before_all_states_that_are_retained,
    a_history_gets_rows_anew_whose_column_somebody_has_narrowed,
    a_sync_that_adds_a_column_goes_on_without_the_history_that_somebody_restored,
    a_table_is_restored_right_before_a_commit,
    a_table_is_restored_to_rows_without_a_column_right_before_a_merge,
    a_table_is_restored_to_a_narrower_column_right_before_a_merge,
    a_table_is_restored_to_a_narrower_column_right_before_it_is_added,
    a_table_is_restored_to_rows_without_a_column_right_before_an_append,
    another_pipeline_adds_the_same_column_with_another_type,
    files_vanish_that_were_written_again_for_a_wider_column,
    another_pipeline_widens_a_column_of_the_history,
    others_append_all_the_while,
    somebody_joins_the_files_of_a_table_with_vectors_while_nothing_is_new,
    three_pipelines_bring_the_same_new_key,
    the_key_is_another_than_that_of_the_rows,
    a_record_of_the_future_comes_with_each_window_until_its_time_has_come,
    somebody_drops_a_constraint_after_it_has_refused_rows,
    a_table_is_restored_to_a_cut_sync_and_more_has_come_into_its_windows,
    a_table_is_restored_to_a_cut_sync_and_a_record_has_left_since,
    a_person_resets_a_part_of_an_interrupted_overwrite,
    a_person_sets_an_interrupted_overwrite_to_an_earlier_page,
    a_table_is_restored_to_before_a_fork,
    a_person_moves_the_state_of_an_append,
    a_person_moves_the_state_while_a_sync_runs,
    a_person_moves_the_state_while_an_append_runs,
]


@pytest.mark.parametrize("steps", WORLDS, ids=lambda steps: steps.__name__.replace("_", " "))
def test_a_named_world_ends_right(steps: Callable[[Times], None]) -> None:
    world = Times()
    try:
        steps(world)
        world.nothing_is_there_twice_and_what_is_there_is_whole()
    finally:
        world.teardown()
