from pathlib import Path

from tests.spark.class_archive import quick_java


def test_java_is_told_of_an_archive_that_is_there(tmp_path: Path) -> None:
    archive = tmp_path / "a folder" / "spark.jsa"
    without = quick_java(archive)
    archive.parent.mkdir()
    archive.touch()

    assert "SharedArchiveFile" not in without
    assert quick_java(archive) == f'{without} "-XX:SharedArchiveFile={archive}"'
