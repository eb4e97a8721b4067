"""What a process does less of: only while it is wanted."""

import gc
import resource

import pytest

from cdk.base.process.tuning import tuned_for_records


def test_what_was_set_comes_back_after_an_error_too() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()

    with pytest.raises(KeyError):
        _fail_within(before)

    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def _fail_within(before: tuple[tuple[int, int, int], int]) -> None:
    with tuned_for_records():
        assert gc.get_threshold() > before[0]
        assert gc.get_freeze_count() > before[1]
        raise KeyError


def test_the_texts_of_a_page_need_no_new_memory_for_each() -> None:
    with tuned_for_records():
        for _ in range(3):
            _texts_of_a_page()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(50):
            _texts_of_a_page()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    # Nearly 400 for each page where the allocator has learned nothing.
    assert faults < 50 * 20


def _texts_of_a_page() -> bytes:
    body = b"x" * 370_000
    lines = body[1:-1]
    return b"".join((b"head", lines.replace(b"x", b"yy", 100_000), b"tail"))
