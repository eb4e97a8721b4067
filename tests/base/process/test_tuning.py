"""Rare collections: only while they are wanted."""

import gc

import pytest

from cdk.base.process.tuning import rare_collections


def test_what_was_set_comes_back_after_an_error_too() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()

    with pytest.raises(KeyError):
        _fail_within(before)

    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def _fail_within(before: tuple[tuple[int, int, int], int]) -> None:
    with rare_collections():
        assert gc.get_threshold() > before[0]
        assert gc.get_freeze_count() > before[1]
        raise KeyError
