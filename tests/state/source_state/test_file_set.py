import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import BadState, ConfigError, FatalError, NotFound
from cdk.state import (
    FileSet,
    SourceFile,
    StateKey,
    StateLog,
    StateRecord,
    StateValue,
    local_files,
    open_session,
    slot_of,
)
from cdk.state.stores.memory import MemoryStore

KEY = StateKey("shop")


def named(*paths: str, size: int = 1) -> list[SourceFile]:
    return [SourceFile(path, size, 100 + i) for i, path in enumerate(paths)]


class Runs:
    """Runs of a pipeline that reads files; each reads what is planned, or the first few of it."""

    def __init__(self, **settings: Any) -> None:
        self.log = StateLog(MemoryStore(), KEY)
        self.settings = settings

    def __call__(self, files: Sequence[SourceFile], most: int | None = None) -> list[tuple[str, str]]:
        with open_session(self.log) as session:
            found = FileSet.open(session, **self.settings)
            plan = found.plan(files)[:most]
            for pending in plan:
                found.done(pending.file)
            found.propose(session)
            self.record: StateRecord | None = session.commit("final")
        return [(pending.file.path, pending.why) for pending in plan]

    def put(self, kind: str, value: Any) -> None:
        with open_session(self.log) as session:
            session.propose(slot_of("default"), StateValue(kind, 1, value))
            session.commit("final")

    def value(self) -> Any:
        with open_session(self.log) as session:
            found = session.value(slot_of("default"))
            return found.value if found else None


def test_files_are_read_once_and_new_ones_when_they_come() -> None:
    read = Runs()
    assert read(named("b", "a")) == [("a", "new"), ("b", "new")]
    assert read(named("b", "a")) == []
    assert read.record is None
    assert read(named("b", "a", "c")) == [("c", "new")]


def test_a_late_file_within_the_lookback_is_read() -> None:
    read = Runs(lookback=2)
    read(named("1", "2", "3", "5"))

    assert read([*named("1", "2", "3", "5"), SourceFile("4", 1, 0), SourceFile("0", 1, 0)]) == [("4", "late")]


def test_files_of_one_name_in_two_folders_are_two() -> None:
    read = Runs()
    read(named("a/1.csv"))

    assert read(named("a/1.csv", "b/1.csv")) == [("b/1.csv", "new")]


def test_numbers_in_names_count_as_numbers_when_asked() -> None:
    files = named("day_10", "day_2", "day_02", "day", "10", "day_2b")
    letters = [path for path, _ in Runs()(files)]
    numbers = [path for path, _ in Runs(order="natural")(files)]

    assert letters == ["10", "day", "day_02", "day_10", "day_2", "day_2b"]
    assert numbers == ["10", "day", "day_02", "day_2", "day_2b", "day_10"]
    read = Runs(order="natural", lookback=1)
    read(named("file_9"))
    assert read(named("file_9", "file_10")) == [("file_10", "new")]


def test_the_last_change_is_an_order_as_well() -> None:
    read = Runs(order="modified", lookback=1)
    assert read([SourceFile("z", 1, 10), SourceFile("a", 1, 20)]) == [("z", "new"), ("a", "new")]

    assert read([SourceFile("z", 1, 30), SourceFile("a", 1, 20), SourceFile("m", 1, 15)]) == [
        ("m", "late"),
        ("z", "new"),
    ]
    with pytest.raises(FatalError, match="has no timestamp"):
        read([SourceFile("x", 1, etag="e")])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SourceFile("a", 1, 5), SourceFile("a", 1, 6)),
        (SourceFile("a", 1, 5), SourceFile("a", 2, 5)),
        (SourceFile("a", 1, etag='"x"'), SourceFile("a", 1, etag='"y"')),
    ],
)
def test_a_rewritten_file_is_read_again_or_ignored_or_an_error(before: SourceFile, after: SourceFile) -> None:
    read = Runs(on_change="reread")
    read([before])
    assert read([after]) == [("a", "changed")]
    assert read([after]) == []

    read = Runs(on_change="ignore")
    read([before])
    assert read([after]) == []
    assert read.record is None

    read = Runs(on_change="fail")
    read([before])
    with pytest.raises(FatalError, match=r"a: found .*rewritten after it was read"):
        read([after])


def test_a_run_that_was_cut_leaves_the_rest_for_the_next() -> None:
    read = Runs(lookback=1)
    files = named(*"abcdef")

    assert [path for path, _ in read(files, most=2)] == ["a", "b"]
    assert [path for path, _ in read(files, most=3)] == ["c", "d", "e"]
    assert [path for path, _ in read(files)] == ["f"]


def test_the_floor_never_passes_a_file_that_is_still_to_be_read() -> None:
    files = FileSet(lookback=1)
    first, *rest = [pending.file for pending in files.plan(named(*"abcd"))]
    for file in rest:
        files.done(file)
    assert files.value().value["floor"] is None

    files.done(first)
    assert files.value().value["floor"]["path"] == "c"
    assert set(files.value().value["files"]) == {"d"}


def test_what_is_remembered_is_bounded() -> None:
    read = Runs(lookback=3)
    for number in range(50):
        read(named(*(f"{i:03}" for i in range(number + 1))))

    assert set(read.value()["files"]) == {"047", "048", "049"}
    assert read.value()["floor"]["path"] == "046"


NAMES = st.lists(st.text("ab019_/", min_size=1, max_size=5), unique=True, max_size=12)


@given(
    NAMES, st.lists(st.integers(0, 4), max_size=12), st.integers(1, 3), st.sampled_from(["name", "natural", "modified"])
)
def test_runs_that_are_cut_anywhere_read_every_file_once(
    paths: list[str], cuts: list[int], lookback: int, order: Any
) -> None:
    read, files, seen = Runs(order=order, lookback=lookback), named(*paths), []
    for most in [*cuts, None]:
        seen += [path for path, _ in read(files, most)]

    assert sorted(seen) == sorted(paths)


@given(st.lists(NAMES, max_size=6), st.sampled_from(["name", "natural"]))
def test_no_file_is_lost_while_the_lookback_holds_them_all(listings: list[list[str]], order: Any) -> None:
    read, seen, there = Runs(order=order, lookback=100), [], set()
    for paths in listings:
        there.update(paths)
        seen += [path for path, _ in read([SourceFile(path, 1, 1) for path in there])]

    assert sorted(seen) == sorted(there)


def test_a_file_that_was_not_planned_cannot_be_done() -> None:
    files = FileSet()
    (pending,) = files.plan(named("a"))
    files.done(pending.file)

    with pytest.raises(FatalError, match="a: this file was not planned"):
        files.done(pending.file)


def test_the_name_of_the_last_file_goes_to_open_data_fabric_and_back() -> None:
    files = FileSet()
    for pending in files.plan(named("a.csv", "b.csv")):
        files.done(pending.file)
    assert files.as_odf() == StateValue("odf/etag", 1, "b.csv")

    read = Runs()
    read.put("odf/etag", "b.csv")
    assert read(named("a.csv", "b.csv", "c.csv")) == [("c.csv", "new")]
    assert read(named("a.csv", "b.csv", "c.csv")) == []


def test_what_open_data_fabric_cannot_say_is_refused() -> None:
    with pytest.raises(BadState):
        FileSet().as_odf()
    files = FileSet(order="modified")
    (pending,) = files.plan(named("a"))
    files.done(pending.file)
    with pytest.raises(BadState):
        files.as_odf()
    read = Runs(order="modified")
    read.put("odf/etag", "b.csv")
    with pytest.raises(BadState):
        read([])


def test_another_order_would_count_wrongly_and_is_refused() -> None:
    read = Runs()
    read(named("a"))
    read.settings["order"] = "natural"

    with pytest.raises(BadState, match="source:default order: found 'name', expected 'natural'"):
        read(named("a"))


@pytest.mark.parametrize(
    "value",
    [
        5,
        {},
        {"order": "name", "floor": None, "files": []},
        {"order": "name", "floor": {}, "files": {}},
        {"order": "name", "floor": None, "files": {"a": 1}},
        {"order": "name", "floor": None, "files": {"a": {"size": "1"}}},
        {"order": "name", "floor": None, "files": {"a": {"size": 1, "etag": 1}}},
    ],
)
def test_a_damaged_set_is_refused(value: Any) -> None:
    read = Runs()
    read.put("cdk/file-set", value)

    with pytest.raises(BadState):
        read([])


@pytest.mark.parametrize("settings", [{"order": "size"}, {"on_change": "cry"}, {"lookback": 0}])
def test_settings_that_do_not_exist_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        FileSet(**settings)


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
