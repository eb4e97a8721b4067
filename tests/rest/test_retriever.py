from collections.abc import Sequence

from cdk import Checkpoint, Page, Record, Slice
from cdk.rest import HttpClient, PageNumber, PageRetriever, Request, Response, Retriever
from cdk.testing.mock_api import MockApi


def parse(response: Response, slice: Slice) -> Sequence[Record]:  # noqa: ARG001
    records: Sequence[Record] = response.json()
    return records


def test_a_slice_is_read_from_its_start_to_its_last_page() -> None:
    api = MockApi()
    for page in (1, 2, 3):
        api.get("/a", params={"page": page}).returns(json=[{"id": page}] if page < 3 else [])
    retriever: Retriever = PageRetriever(
        HttpClient(api), PageNumber(), lambda _: Request("GET", "https://api.test/a"), parse
    )

    whole = [item for item in retriever.read(Slice()) if isinstance(item, Page)]
    rest = [item for item in retriever.read(Slice(start=Checkpoint({"page": 2}))) if isinstance(item, Page)]

    assert [page.next for page in whole] == [{"page": 2}, {"page": 3}, None]
    assert [list(page.records) for page in rest] == [[{"id": 2}], []]
