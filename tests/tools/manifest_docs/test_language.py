"""The reference pages say what the code does."""

from pathlib import Path

from tools.manifest_docs.language import PAGES, write_pages
from tools.manifest_docs.pages import component_pages

PROJECT = Path(__file__).parents[3]


def test_the_pages_on_disk_are_those_that_are_rendered() -> None:
    """`python -m tools.manifest_docs.language --write` renders them."""
    pages = component_pages()
    on_disk = {page.name: page.read_text() for page in (PROJECT / PAGES).glob("*.md") if page.name != "language.md"}

    assert sorted(pages) == sorted(on_disk)
    assert [name for name, text in pages.items() if on_disk[name] != text] == []


def test_writing_the_pages_removes_those_of_families_that_are_gone(tmp_path: Path) -> None:
    pages = write_pages(tmp_path)
    gone = tmp_path / "gone.md"
    gone.write_text(pages[0].read_text())
    (tmp_path / "language.md").write_text("# By hand\n")

    assert write_pages(tmp_path) == pages
    assert not gone.exists()
    assert (tmp_path / "language.md").exists()
