"""Faults of DataHub's stateful ingestion, and the same scenarios here: docs/explanation/compared-with-datahub.md.

A test fails when either side changes.
"""

from datetime import UTC, datetime
from importlib.metadata import distributions

from tests.docs.page import DOCS
from tests.peers.kits import PEERS, Both, Run

WINDOW = datetime(2024, 5, 10, tzinfo=UTC), datetime(2024, 5, 12, tzinfo=UTC)


def test_the_page_names_the_version_that_was_tried() -> None:
    (version,) = (
        found.version for found in distributions(name="acryl-datahub", path=[str(p) for p in PEERS.glob("lib/*/*")])
    )

    assert f"acryl-datahub {version}" in (DOCS / "explanation" / "compared-with-datahub.md").read_text()


def test_what_is_gone_is_removed_and_forgotten_in_both(both: Both) -> None:
    theirs, ours = both.runs([Run("abcd"), Run("abe")])

    assert ours == theirs
    assert (ours.complaint, ours.shown, ours.known) == ("", set("abe"), set("abe"))


def test_a_preview_removes_there_and_nothing_here(both: Both) -> None:
    theirs, ours = both.runs([Run("abcd"), Run("ab", preview=True)])

    assert (theirs.complaint, theirs.shown, theirs.known) == ("", set("ab"), set("abcd"))
    assert (ours.complaint, ours.shown, ours.known) == ("", set("abcd"), set("abcd"))


def test_ignoring_the_new_state_fails_there_and_stores_nothing_here(both: Both) -> None:
    theirs, ours = both.runs([Run("abcd"), Run("abe", options={"ignore_new_state": True})])

    assert ("AssertionError" in theirs.complaint, theirs.shown) == (True, set("abcde"))
    assert (ours.complaint, ours.shown, ours.known) == ("", set("abcde"), set("abcd"))


def test_a_state_that_is_too_large_passes_there_and_is_an_error_here(both: Both) -> None:
    both.run(Run("ab"))
    theirs, ours = both.run(Run("abc", options={"max_checkpoint_state_size": 10}))

    assert (theirs.complaint, theirs.shown, theirs.known) == ("", set("abc"), set("ab"))
    assert "expected at most 10; raise max_checkpoint_state_size" in ours.complaint
    assert (ours.shown, ours.known) == (set("ab"), set("ab"))

    theirs, ours = both.run(Run("ab"))

    assert (theirs.complaint, theirs.shown) == ("", set("abc")), "nothing ever removes c"
    assert (ours.complaint, ours.shown) == ("", set("ab"))


def test_the_same_window_is_read_every_other_time_there_and_once_here(both: Both) -> None:
    outcomes = [both.run(Run("ab", window=WINDOW)) for _ in range(4)]

    assert [outcome.theirs.read_usage for outcome in outcomes] == [True, False, True, False]
    assert [outcome.ours.read_usage for outcome in outcomes] == [True, False, False, False]


def test_pipelines_that_share_a_store_erase_each_other_there_and_not_here(both: Both) -> None:
    both.run(Run("ab", pipeline="one"))
    both.run(Run("xy", pipeline="two"))
    theirs, ours = both.run(Run("a", pipeline="one"))

    assert (theirs.complaint, theirs.shown) == ("", set("abxy"))
    assert (ours.complaint, ours.shown) == ("", set("axy"))


def test_a_removal_that_the_sink_refused_is_forgotten_there_and_repeated_here(both: Both) -> None:
    both.run(Run("abcd"))
    theirs, ours = both.run(Run("abc", refused="d"))

    assert ("d cannot be removed" in theirs.complaint, theirs.known) == (True, set("abc"))
    assert ours.known == set("abcd")

    theirs, ours = both.run(Run("abc"))

    assert (theirs.complaint, theirs.shown) == ("", set("abcd"))
    assert (ours.complaint, ours.shown, ours.known) == ("", set("abc"), set("abc"))


def test_a_state_of_a_newer_version_removes_there_and_is_an_error_here(both: Both) -> None:
    both.run(Run("abcd"))
    both.claim_a_newer_version()
    theirs, ours = both.run(Run("abe"))

    assert (theirs.complaint, theirs.shown) == ("", set("abe"))
    assert "expected at most 1: a newer kit wrote it" in ours.complaint
    assert (ours.shown, ours.known) == (set("abcd"), set("abcd"))
