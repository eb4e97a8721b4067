"""The documentation as a site: it builds without a warning, and needs nothing of other servers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page import DOCS

FETCHED = re.compile(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="(https?://[^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=DOCS.parent,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_built_and_fetches_nothing_from_elsewhere(site: Path) -> None:
    pages = {page: page.read_text() for page in site.rglob("index.html")}

    assert len(pages) == len(list(DOCS.rglob("*.md")))
    assert {url for page in pages.values() for url in FETCHED.findall(page)} == set()


@pytest.mark.parametrize(
    ("door", "name"), [("cdk", "PagedStream"), ("rest", "HttpStream"), ("state", "StateLog"), ("testing", "MockApi")]
)
def test_the_reference_has_what_the_front_doors_have(site: Path, door: str, name: str) -> None:
    page = (site / "reference" / "python" / door / "index.html").read_text()

    assert re.search(rf'<h2 id="[^"]*\.{name}"', page)


def test_the_search_knows_the_words_of_a_docstring(site: Path) -> None:
    assert "MockApi" in (site / "search" / "search_index.json").read_text()


def test_an_assistant_finds_each_page_as_markdown_and_all_of_them_in_one_file(site: Path) -> None:
    linked = re.findall(r"\]\(([^)]+\.md)\)", (site / "llms.txt").read_text())
    everything = (site / "llms-full.txt").read_text()

    assert len(linked) >= len(list(DOCS.rglob("*.md"))) - 2  # the indexes of all pages and of the manifest language
    pages = [(site / page).read_text() for page in linked]
    assert [page for page in pages if page not in everything] == []
    assert (site / "how-to" / "recover.md").read_text() == (DOCS / "how-to" / "recover.md").read_text()
    assert "## MockApi\n\n```python" in everything
    assert "¶" not in everything
