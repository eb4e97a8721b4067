import os
from pathlib import Path

import pytest

from cdk import NotFound
from cdk.state import SourceFile, local_files


def test_a_listing_gives_full_paths_sizes_and_moments(tmp_path: Path) -> None:
    for path in ("a/1.csv", "b/1.csv", "b/c/2.csv", "b/notes.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
        os.utime(tmp_path / path, ns=(5, 7))

    assert sorted(local_files(tmp_path, "*.csv"), key=lambda file: file.path) == [
        SourceFile("a/1.csv", 7, 7),
        SourceFile("b/1.csv", 7, 7),
        SourceFile("b/c/2.csv", 9, 7),
    ]
    assert len(list(local_files(tmp_path))) == 4
    assert list(local_files(tmp_path, "*.CSV")) == []


def test_an_empty_folder_is_no_error_and_a_missing_one_is(tmp_path: Path) -> None:
    assert list(local_files(tmp_path)) == []
    with pytest.raises(NotFound, match="there is no such folder"):
        list(local_files(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (SourceFile("a", 1, 5), SourceFile("a", 1, 5), True),
        (SourceFile("a", 1, 5), SourceFile("a", 2, 5), False),
        (SourceFile("a", 1, 5), SourceFile("a", 1, 6), False),
        (SourceFile("a", 1, 5), SourceFile("b", 1, 5), False),
        (SourceFile("a", 1, 5, "x"), SourceFile("a", 1, 6, "x"), True),
        (SourceFile("a", 1, 5, "x"), SourceFile("a", 1, 5, "y"), False),
        (SourceFile("a", 1, 5, "x"), SourceFile("a", 1, 5), True),
        (SourceFile("a", 1, etag="x"), SourceFile("a", 1, 5), False),
    ],
)
def test_the_version_of_a_store_counts_more_than_the_moment(one: SourceFile, other: SourceFile, same: object) -> None:
    assert one.same(other) is same
    assert other.same(one) is same
