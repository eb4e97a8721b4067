"""Every page that shows commands does what it says."""

from pathlib import Path

import pytest

from tests.docs.page import DOCS, play, says

PAGES = [
    "../README.md",
    "explanation/state.md",
    "explanation/state-log.md",
    "how-to/begin-from-an-api-description.md",
    "how-to/find-missing-records.md",
    "how-to/package-a-connector.md",
    "how-to/prove-a-connector.md",
    "how-to/record-a-cassette.md",
    "how-to/run-a-connector.md",
    "how-to/simulate-an-api.md",
    "how-to/test-a-connector.md",
    "how-to/use-a-manifest.md",
    "reference/cli.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says(page: str, folder: Path, address: str) -> None:
    play(DOCS / page, folder, address)


def test_dots_stand_for_the_rest_of_a_line_and_for_nothing_else() -> None:
    assert says("one two three\nfour \n", "one ...\nfour\n")
    assert not says("one\ntwo\nfour", "one ...\nfour")
