"""The pages for assistants are those for people."""

from tests.docs.llms import FILE, written
from tests.docs.page import DOCS


def test_the_file_is_written_anew_and_has_every_page() -> None:
    text = FILE.read_text()

    assert text == written()
    lists = {DOCS / "README.md", DOCS / "reference" / "manifest" / "index.md"}
    assert [page for page in set(DOCS.rglob("*.md")) - lists if f"({page.relative_to(DOCS)})" not in text] == []
