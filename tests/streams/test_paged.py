"""PagedStream: where it goes on, and what it refuses."""

from collections.abc import Callable, Mapping

import pytest

from cdk import FatalError, Json, Page, PagedStream, PaginationLoop, Slice
from cdk.streams.reading import read_slice

Token = Mapping[str, Json] | None


class Scripted(PagedStream):
    def __init__(self, script: Callable[[Token], Page]) -> None:
        super().__init__()
        self._script = script

    def read_page(self, slice: Slice, token: Token) -> Page:  # noqa: ARG002 - no slices here
        return self._script(token)


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_pages_that_go_round_in_circles_are_refused(length: int) -> None:
    def page(token: Token) -> Page:
        n = token["page"] if token else 0
        return Page([{"id": n}], {"page": n + 1 if n < 5 + length else 6})

    with pytest.raises(PaginationLoop):
        list(read_slice(Scripted(page), Slice()))


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (([], None), "gave a tuple, expected Page"),
        (Page(({"id": n} for n in range(2)), None), "are a generator, expected a list"),  # type: ignore[arg-type]
        (Page([], {}), "is {}, expected an object"),
        (Page([], 2), "is 2, expected an object"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_page_is_refused_in_words(page: Page, said: str) -> None:
    with pytest.raises(FatalError, match=said):
        list(read_slice(Scripted(lambda _: page), Slice()))
