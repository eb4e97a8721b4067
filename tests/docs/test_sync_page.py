"""The page about syncs does what it says."""

from pathlib import Path

import pytest

from tests.docs.page import DOCS, play


@pytest.mark.spark
@pytest.mark.usefixtures("session")
def test_the_page_about_syncs_does_what_it_says(folder: Path, address: str) -> None:
    play(DOCS / "how-to" / "sync-into-delta.md", folder, address)
