"""PagedStream: where it goes on, and what it refuses."""

from collections.abc import Callable, Mapping

import pytest

from cdk import Checkpoint, FatalError, Json, Page, PagedStream, PaginationLoop, Position, Slice, Start, StreamState
from cdk.state.slice import WHOLE
from cdk.state.wire import decode, encode
from cdk.streams.page import PageSource, ReadPage
from cdk.streams.read_slice import read_slice

Token = Mapping[str, Json] | None


class Scripted(PagedStream):
    def __init__(self, script: Callable[[Token], Page]) -> None:
        super().__init__()
        self._script = script

    def read_page(self, slice: Slice, token: Token) -> Page:  # noqa: ARG002 - no slices here
        return self._script(token)


def circular(length: int) -> Callable[[Token], Page]:
    """Pages of which the sixth is the next one again after `length` pages."""

    def page(token: Token) -> Page:
        n = token["page"] if token else 0
        return Page([{"id": n}], {"page": n + 1 if n < 5 + length else 6})

    return page


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_pages_that_go_round_in_circles_are_refused(length: int) -> None:
    with pytest.raises(PaginationLoop):
        list(read_slice(Scripted(circular(length)), Slice()))


class Attempts:
    """Attempts that read one page each; every one goes on from the stored state of the one before."""

    def __init__(self, script: Callable[[Token], Page]) -> None:
        self.stream, self.read = Scripted(script), 0
        self.position: Position = Start()

    def attempt(self) -> None:
        """Read a page. Raises what reading raises."""
        page = next(iter(read_slice(self.stream, Slice(start=self.position))))
        assert page.position is not None
        self.read += len(page.records)
        state = StreamState({WHOLE: page.position})
        self.position = decode(encode(state, incremental=False, exact=True)).of(WHOLE)


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_a_circle_is_noticed_though_no_attempt_reads_more_than_a_page(length: int) -> None:
    attempts = Attempts(circular(length))

    def many() -> None:
        for _ in range(100):
            attempts.attempt()

    with pytest.raises(PaginationLoop, match="reset the stream's state"):
        many()

    read = attempts.read
    assert read < 6 + 9 * length
    with pytest.raises(PaginationLoop, match="reset the stream's state"):
        attempts.attempt()
    assert attempts.read == read


def slipping() -> Callable[[Token], Page]:
    """Pages of which the eighth names the sixth as the next one, once."""
    slips = [6]

    def page(token: Token) -> Page:
        n = token["page"] if token else 0
        return Page([{"id": n}], {"page": slips.pop() if slips and n == 8 else n + 1} if n < 12 else None)

    return page


def test_a_circle_that_was_a_slip_of_the_source_ends_with_it_page_by_page() -> None:
    attempts = Attempts(slipping())

    for _ in range(12 + 3):
        attempts.attempt()

    assert isinstance(attempts.position, Checkpoint)
    assert attempts.position.cursor["page"] == 12


def test_a_circle_that_was_a_slip_of_the_source_ends_with_it() -> None:
    stream = Scripted(slipping())
    pages: list[ReadPage] = []
    with pytest.raises(PaginationLoop, match="continues with that page"):
        pages.extend(read_slice(stream, Slice()))

    assert pages[-1].position is not None
    rest = [record["id"] for page in read_slice(stream, Slice(start=pages[-1].position)) for record in page.records]
    assert rest[-4:] == [9, 10, 11, 12]


def test_a_long_way_without_a_circle_is_read_to_its_end_page_by_page() -> None:
    def page(token: Token) -> Page:
        n = token["page"] if token else 0
        return Page([{"id": n}], {"page": n + 1})

    attempts = Attempts(page)
    for _ in range(70):
        attempts.attempt()

    assert isinstance(attempts.position, Checkpoint)
    assert attempts.position.cursor == {"page": 70}


def test_the_records_of_a_page_may_come_one_by_one() -> None:
    stream = Scripted(lambda _: Page(({"id": n} for n in range(2)), None))  # type: ignore[arg-type] # without types

    assert next(iter(read_slice(stream, Slice()))).records == [{"id": 0}, {"id": 1}]


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (([], None), r"returned a tuple, expected Page\(records, next\) \(.*test_paged\.py:\d+\)"),
        (Page(None, None), r"the records of a page are a NoneType, expected a list \(.*test_paged\.py:\d+\)"),  # type: ignore[arg-type]
        (Page({"id": 1}, None), "the records of a page are a dict, expected a list"),  # type: ignore[arg-type]
        (Page("ab", None), "the records of a page are a str, expected a list"),  # type: ignore[arg-type]
        (Page([], {}), "is {}, expected an object"),
        (Page([], 2), r"is 2, expected an object .*, or None at the end \(.*test_paged\.py:\d+\)"),  # type: ignore[arg-type]
        (Page([], {"n": {7}}), r"the next of a page is {'n': \{7\}}, which JSON cannot hold; expected an object"),
    ],
)
def test_what_is_no_page_is_refused_in_words(page: Page, said: str) -> None:
    with pytest.raises(FatalError, match=said):
        list(read_slice(Scripted(lambda _: page), Slice()))


@pytest.mark.parametrize(
    ("pages", "warned"),
    [("e" * 99 + "r", 0), ("e" * 100 + "r", 1), ("r" + "e" * 250, 1), ("re" * 120, 0), (("e" * 100 + "r") * 2, 2)],
)
def test_many_pages_without_records_in_a_row_are_warned_of_and_read_on(pages: str, warned: int) -> None:
    def script(token: Token) -> Page:
        number = token["page"] if token else 0
        records = [{"id": number}] * (pages[number] == "r")
        following = {"page": number + 1} if number + 1 < len(pages) else None
        return Page(records, following, source=PageSource(b"%d" % number, len(records)))

    read = list(read_slice(Scripted(script), Slice()))

    assert sum(len(page.records) for page in read) == pages.count("r")
    texts = [page.warning for page in read if "pages in a row have no records" in page.warning]
    assert len(texts) == warned
    assert all("100 pages" in text and "'page': " in text and "`stop_condition`" in text for text in texts)
