"""The pages about what lasts between runs without a table do what they say."""

import sys
from pathlib import Path

import pytest

from tests.docs.page import DOCS, play


@pytest.mark.parametrize("page", ["follow-a-source-by-etag.md", "keep-bookmarks.md"])
def test_a_page_does_what_it_says(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    play(DOCS / "how-to" / page, folder, "http://127.0.0.1:8000")
    for made in {path.stem for path in folder.glob("*.py")} - before:
        sys.modules.pop(made, None)
