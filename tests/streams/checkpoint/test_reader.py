"""The reader of pages: one slice, from where it stopped."""

from cdk import Checkpoint, Done, PageCheckpointReader, Slice, Start
from cdk.state.slice import WHOLE
from tests.streams.checkpoint.readers import A, slices


def test_a_page_reader_hands_out_one_slice_from_where_it_stopped() -> None:
    reader = PageCheckpointReader(A, Checkpoint({"page": 2}))

    assert list(slices(reader)) == [Slice(A, start=Checkpoint({"page": 2}))]


def test_a_page_reader_has_nothing_to_do_where_it_is_done() -> None:
    reader = PageCheckpointReader(A, Done())

    assert (reader.next(), reader.finished, reader.get_checkpoint()) == (None, True, None)


def test_a_cursor_advanced_by_hand_is_kept_at_the_end() -> None:
    reader = PageCheckpointReader(WHOLE, Start(), keeps_cursor=True)
    (slice,) = slices(reader)
    reader.observe(slice, Checkpoint({"version": 3}))
    reader.observe(slice, Done())

    assert reader.finished
    assert reader.position == Checkpoint({"version": 3})
    assert list(slices(PageCheckpointReader(WHOLE, Done(), keeps_cursor=True))) == [Slice()]
