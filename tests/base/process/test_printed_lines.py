"""What code prints: lines, each of its thread, without secrets."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from cdk.base.process.printed_lines import printing_to, prints_on_stderr
from cdk.base.secret_masking import Secrets


def test_a_line_is_shown_as_it_ends_and_a_last_one_without_an_end_too() -> None:
    lines: list[str] = []

    with printing_to(lines.append):
        print("a", "b")
        print("c", end="")
        assert lines == ["a b"]
        print("d\n\ne", end="")

    assert lines == ["a b", "cd", "", "e"]


def test_lines_of_threads_do_not_mix() -> None:
    lines: list[str] = []
    both = Barrier(2)

    def words(letter: str) -> None:
        for _ in range(20):
            print(letter, end="")
            both.wait()
            print(letter)
            both.wait()

    with printing_to(lines.append), ThreadPoolExecutor(2) as pool:
        list(pool.map(words, "ab"))

    assert sorted(lines) == ["aa"] * 20 + ["bb"] * 20


def test_a_secret_that_is_printed_in_pieces_is_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    with prints_on_stderr(Secrets(["pa-ss-word"])):
        print("key", "pa-ss", sep="=", end="")
        print("-word")

    assert capsys.readouterr() == ("", "key=****\n")


def test_what_is_written_to_standard_error_has_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    with prints_on_stderr(Secrets(["pa-ss-word"])):
        print("key", "pa-ss-word", file=sys.stderr)
        sys.stderr.writelines(["pa-ss-word", "\n"])
        assert not sys.stderr.isatty()

    assert capsys.readouterr() == ("", "key ****\n****\n")
