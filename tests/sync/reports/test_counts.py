from cdk import Checkpoint, Done, Partition, Slice
from cdk.lake.delta.receipt import Receipt
from cdk.lake.parquet.writer import DataFile
from cdk.sync.reports.counts import LISTED, CommitCounts, RecordCounts, SliceCounts
from cdk.sync.tasks.messages import SliceResult


def test_a_slice_that_was_cut_is_one_slice() -> None:
    counts = SliceCounts()
    for slice, position in ((Slice(), Checkpoint({"page": 1})), (Slice(start=Checkpoint({"page": 1})), Done())):
        counts = counts.plus(slice, SliceResult(0, (position,), read=5, rows=3, skipped=2, rejected=1))

    assert counts.listed == {"whole stream": RecordCounts(read=10, written=6, skipped=4, rejected=2, done=1)}
    assert counts.others == RecordCounts()


def test_of_many_slices_the_first_are_listed_and_the_others_summed() -> None:
    counts = SliceCounts()
    for n in range(LISTED + 3):
        counts = counts.plus(Slice(Partition.of(part=n)), SliceResult(0, (Done(),), read=1, rows=1))

    assert list(counts.listed) == [f'{{"part":{n}}}' for n in range(LISTED)]
    assert counts.others == RecordCounts(read=3, written=3, done=3)


def test_the_newest_commits_are_listed() -> None:
    counts = CommitCounts()
    for n in range(LISTED + 3):
        files = [DataFile("a", size=10, rows=2, modified=0), DataFile("b", size=5, rows=1, modified=0)]
        counts = counts.plus(n, files, Receipt(read=4, skipped=1, staged=3, added=3), 0.5)

    assert [one.table_version for one in counts.listed] == list(range(3, LISTED + 3))
    assert (counts.listed[0].rows, counts.listed[0].files, counts.listed[0].bytes) == (3, 2, 15)
    assert counts.listed[0].receipt == Receipt(read=4, skipped=1, staged=3, added=3)
    many = LISTED + 3
    assert (counts.listed[0].seconds, counts.seconds) == (0.5, 0.5 * many)
    assert counts.receipt == Receipt(read=4 * many, skipped=many, staged=3 * many, added=3 * many)


def test_rows_that_a_merge_writes_again_are_not_added() -> None:
    counts = CommitCounts().plus(1, [DataFile("a", 10, rows=120, modified=0)], Receipt(read=1, staged=1, added=1))

    assert (counts.listed[0].rows, counts.listed[0].files) == (1, 1)
