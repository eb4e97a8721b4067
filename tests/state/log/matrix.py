"""Which test shows what becomes of rows and state, for every failure and every kind of sink.

A: a Delta table, which holds its state. B, C, D: a log elsewhere, with a sink that has a marker, merges by key, or
appends (`sinks.py`). The tests of the latter three are in `test_failures.py` and run for each of them.
`docs/explanation/guarantees.md` says what becomes of each; `test_matrix.py` compares.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """A failure. delta: tests of A, as `file::test`, `[point]` where it is a crash point.

    others: tests of B, C and D.
    """

    failure: str
    delta: tuple[str, ...]
    others: tuple[str, ...]


MATRIX = (
    Row(
        "a wrong name or setting",
        ("test_state_log_mirror.py::test_a_provider_that_is_turned_off_or_wrong",),
        ("test_a_name_that_is_none_touches_nothing",),
    ),
    Row(
        "a state that is damaged or too new",
        ("test_failure_matrix.py::test_a_state_that_cannot_be_read_fails_the_sync_before_the_source_is_read",),
        ("test_a_state_that_cannot_be_read_stops_a_run_before_the_source_is_read",),
    ),
    Row(
        "death before any data",
        ("test_crash_points.py::test_a_sync_that_died_at_a_point_is_completed_by_the_next[task_begins]",),
        ("test_a_run_that_dies_before_any_data_is_begun_anew",),
    ),
    Row(
        "death with rows staged",
        ("test_crash_points.py::test_a_sync_that_died_at_a_point_is_completed_by_the_next[files_written]",),
        ("test_rows_that_were_staged_and_not_committed_are_dropped",),
    ),
    Row(
        "death with a blob or intent written",
        (
            "test_crash_points.py::test_a_sync_that_died_at_a_point_is_completed_by_the_next[after_state_blob]",
            "test_stream_table.py::test_a_state_that_was_written_and_never_committed_does_not_count_and_is_removed_later",
        ),
        ("test_a_blob_or_intent_without_a_record_is_ignored_and_collected",),
    ),
    Row(
        "death between rows and record",
        (
            "test_failure_matrix.py::test_rows_that_were_committed_before_the_log_heard_of_them_are_told_by_the_next_sync",
        ),
        ("test_rows_that_were_committed_without_their_record",),
    ),
    Row(
        "the store's answer is lost",
        ("test_object_store.py::test_a_commit_whose_answer_is_lost_counts_once",),
        ("test_an_answer_of_the_store_that_is_lost_changes_nothing",),
    ),
    Row(
        "the sink's answer is lost",
        ("test_object_store.py::test_a_commit_whose_answer_is_lost_counts_once",),
        ("test_an_answer_of_the_sink_that_is_lost",),
    ),
    Row(
        "death after the last record",
        (
            "test_crash_points.py::test_a_sync_that_died_at_a_point_is_completed_by_the_next[done]",
            "test_run_lock.py::test_the_lock_is_free_when_its_holder_dies_and_the_next_run_is_the_rest_of_the_sync",
        ),
        ("test_a_run_that_dies_after_its_last_record_holds_no_lease",),
    ),
    Row(
        "death while old state is removed",
        ("test_failure_matrix.py::test_a_removal_of_states_that_was_cut_harms_nothing_and_is_finished",),
        ("test_a_removal_that_was_cut_is_finished_by_the_next_run",),
    ),
    Row(
        "a second run meanwhile",
        (
            "test_two_syncs.py::test_the_second_is_refused_and_a_paused_one_that_wakes_up_commits_nothing",
            "test_stream_table.py::test_of_two_runs_from_one_version_the_second_is_refused_and_adds_nothing",
        ),
        (
            "test_a_second_run_is_refused_while_the_first_holds_the_lease",
            "test_of_two_runs_without_a_lease_the_loser_adds_no_row_that_counts",
        ),
    ),
    Row(
        "a run that slept wakes up overtaken",
        ("test_two_syncs.py::test_the_second_is_refused_and_a_paused_one_that_wakes_up_commits_nothing",),
        ("test_a_run_that_sleeps_and_is_overtaken_commits_at_most_a_batch",),
    ),
    Row(
        "the sink refuses a row",
        ("test_failure_matrix.py::test_a_record_that_cannot_be_written_stops_the_stream_at_what_was_committed",),
        ("test_a_row_that_the_sink_refuses_stops_its_slot_where_it_stands",),
    ),
    Row(
        "the sink refuses a removal",
        ("test_failure_matrix.py::test_a_table_that_refuses_a_removal_is_asked_again",),
        ("test_a_removal_that_the_sink_refuses_is_asked_for_again",),
    ),
    Row(
        "the source fails in one stream",
        (
            "test_state_log_mirror.py::test_a_sync_with_a_stream_that_failed_leaves_a_partial_record",
            "test_runner.py::test_one_stream_failing_does_not_stop_the_others",
        ),
        ("test_a_stream_that_fails_stops_no_other",),
    ),
    Row(
        "the store is away at the end",
        ("test_failure_matrix.py::test_a_log_that_is_away_at_the_end_fails_the_sync_and_is_told_by_the_next",),
        ("test_a_store_that_is_away_at_the_end_fails_the_run_and_loses_nothing",),
    ),
    Row(
        "the disk is full",
        ("test_failure_matrix.py::test_a_disk_that_is_full_fails_the_sync_and_keeps_what_was_committed",),
        ("test_a_full_disk_fails_the_run_and_leaves_nothing_half",),
    ),
    Row(
        "the clock jumps",
        ("test_failure_matrix.py::test_a_clock_that_jumps_changes_no_order",),
        ("test_a_clock_that_jumps_changes_no_order",),
    ),
    Row(
        "the sink is dropped or restored",
        (
            "test_failure_matrix.py::test_a_table_that_was_dropped_takes_its_state_along",
            "test_failure_matrix.py::test_a_table_that_was_restored_takes_its_state_back",
        ),
        ("test_a_sink_that_was_dropped", "test_a_sink_that_was_restored"),
    ),
    Row(
        "a preview, a dry run, a selection",
        (
            "test_state_log_mirror.py::test_a_preview_writes_nothing_and_tells_where_a_sync_goes_on",
            "test_state_log_mirror.py::test_streams_that_are_not_synced_stay_in_the_record",
        ),
        ("test_a_preview_writes_nothing", "test_a_selection_moves_no_other_slot"),
    ),
)
