"""The pages about handlers do what they say."""

from pathlib import Path

import pytest

from cdk.state.handlers import StatefulOptions
from tests.docs.page import DOCS, play

PAGES = ["remove-stale-entities.md", "skip-redundant-runs.md"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_does_what_it_says(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    play(DOCS / "how-to" / page, tmp_path, "")


def test_every_option_is_on_a_page() -> None:
    said = "".join((DOCS / "how-to" / page).read_text() for page in PAGES)

    assert [key for key in StatefulOptions.model_fields if f"`{key}`" not in said] == []
