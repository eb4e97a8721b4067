"""The pages about handlers do what they say."""

import sys
from pathlib import Path

import pytest

from cdk.state import StatefulOptions
from cdk.sync.settings.stream_options import RemoveStaleOptions, SkipOptions
from tests.docs.page import DOCS, play

PAGES = ["remove-stale-entities.md", "skip-redundant-runs.md"]


@pytest.mark.spark
@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "path", sys.path.copy())
    play(DOCS / "how-to" / page, tmp_path, "")


def test_every_option_is_on_a_page() -> None:
    said = "".join((DOCS / "how-to" / page).read_text() for page in PAGES)
    options = [*StatefulOptions.model_fields, *RemoveStaleOptions.model_fields, *SkipOptions.model_fields]

    assert [key for key in options if f"`{key}`" not in said] == []
