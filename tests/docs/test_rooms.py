"""The page on architecture shows the rooms that the contracts of imports have."""

from tests.docs.rooms import PAGE, PICTURE, drawn, house, written


def test_the_page_shows_the_rooms_as_they_are() -> None:
    page = PAGE.read_text()

    assert written(page) == page
    assert drawn() in page


def test_the_picture_shows_the_rooms_as_they_are() -> None:
    assert PICTURE.read_text() == str(house())
