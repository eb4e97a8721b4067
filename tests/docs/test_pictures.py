"""The pictures are drawn from `tests/docs/pictures.py`, and pages show each of them."""

import pytest

from tests.docs.page import DOCS
from tests.docs.pictures import FOLDER, PICTURES


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_it_is_drawn(name: str) -> None:
    assert (FOLDER / f"{name}.svg").read_text() == str(PICTURES[name]())


def test_every_picture_is_on_a_page() -> None:
    pages = "\n".join(page.read_text() for page in DOCS.rglob("*.md"))

    assert [file.name for file in FOLDER.iterdir() if f"pictures/{file.name}" not in pages] == []
