"""Parents, pages, paginators and cursors in every combination, cut anywhere and resumed, against a plain model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from urllib.parse import parse_qs, urlsplit

from hypothesis import given, settings
from hypothesis import strategies as st

from cdk import CountCursor, Json, Record
from cdk.base.values import canonical
from cdk.rest import CursorToken, LinkHeader, Offset, PageNumber, Paginator, Request, Response, RestSource, resource
from cdk.testing import MockApi, read
from cdk.testing.conformance.faults import Failing
from tests.rest.api import response

SIZE = 2
PAGINATORS: Mapping[str, Paginator] = {
    "short page": PageNumber(size=SIZE),
    "flag": PageNumber(start=0, more=["more"]),
    "offset": Offset(SIZE),
    "token": CursorToken("next", param="after"),
    "url": CursorToken("url"),
    "header": CursorToken(header="X-Next", param="after"),
    "link": LinkHeader(),
}

Answer = Callable[[Request], Response]


def paged(rows: Callable[[Request], Sequence[Record]]) -> Answer:
    """An API that understands all paginators. rows: what there is for a request, whatever its page."""

    def answer(request: Request) -> Response:
        sent = {name: values[0] for name, values in parse_qs(urlsplit(request.full_url).query).items()}
        found, first = rows(request), int(sent.get("first", 1))
        at = int(sent.get("after") or sent.get("offset") or SIZE * (int(sent.get("page", first)) - first))
        following = at + SIZE if at + SIZE < len(found) else None
        link = f"{request.full_url.split('&after')[0]}&after={following}"
        body: dict[str, Json] = {"rows": found[at : at + SIZE], "more": following is not None, "next": following}
        headers: dict[str, str] = {}
        if following is not None:
            body["url"], headers = link, {"X-Next": str(following), "Link": f'<{link}>; rel="next"'}
        return response(body, headers=headers, request=request)

    return answer


def source(parents: str, children: str, *, cursor: bool) -> RestSource:
    first = {name: {"first": 0} if name == "flag" else {} for name in PAGINATORS}
    return RestSource(
        "https://api.test",
        resource(
            "parents",
            "/parents",
            records_path="rows",
            paginator=PAGINATORS[parents],
            params={"all": 1, **first[parents]},
        ),
        resource(
            "rows",
            "/parents/{parents.id}/rows",
            records_path="rows",
            paginator=PAGINATORS[children],
            params={"since": "{window.start}" if cursor else 0, **first[children]},
            cursor=CountCursor("version") if cursor else None,
            add_fields={"parent": "{parents.id}"},
        ),
    )


World = Mapping[str, list[Record]]


def api(world: World) -> MockApi:
    mock = MockApi()
    mock.get("/parents").answers(paged(lambda _: [{"id": parent} for parent in world]))
    for parent, rows in world.items():

        def since(request: Request, rows: list[Record] = rows) -> list[Record]:
            least = int(parse_qs(urlsplit(request.full_url).query)["since"][0])
            return [row for row in rows if row["version"] >= least]

        mock.get(f"/parents/{parent}/rows").answers(paged(since))
    return mock


ROWS = st.lists(st.integers(0, 3), max_size=5)


@settings(max_examples=40, deadline=None)
@given(
    first=st.lists(ROWS, max_size=3),
    later=st.lists(ROWS, max_size=4),
    parents=st.sampled_from(sorted(PAGINATORS)),
    children=st.sampled_from(sorted(PAGINATORS)),
    cursor=st.booleans(),
    fails_after=st.integers(0, 12),
    slices=st.sampled_from([1, 3]),
)
def test_a_read_has_what_the_api_has_however_it_is_paged_and_cut(
    first: list[list[int]],
    later: list[list[int]],
    parents: str,
    children: str,
    *,
    cursor: bool,
    fails_after: int,
    slices: int,
) -> None:
    connector = source(parents, children, cursor=cursor)
    world = {f"p{at}": [row(at, *each) for each in enumerate(rows)] for at, rows in enumerate(first)}
    model = in_order(row for rows in world.values() for row in rows)

    whole = read(connector, "rows", transport=api(world), concurrency=slices)
    cut = read(
        connector,
        "rows",
        transport=Failing(api(world), fails_after=fails_after, status=403),
        concurrency=slices,
        every_state=True,
    )
    rest = read(connector, "rows", transport=api(world), state=cut.state_messages, concurrency=slices)

    assert (whole.error, in_order(whole.records)) == (None, model)
    assert rest.error is None
    assert set(in_order([*cut.records, *rest.records])) == set(model)
    if not cursor:
        return
    for at, versions in enumerate(later):
        rows = world.setdefault(f"p{at}", [])
        rows += [row(at, number, 3 + version) for number, version in enumerate(versions, len(rows))]
    again = read(connector, "rows", transport=api(world), state=whole.state_messages, concurrency=slices)

    present = in_order(row for rows in world.values() for row in rows)
    assert (again.error, {*in_order(whole.records), *in_order(again.records)}) == (None, {*present})
    greatest = {record["parent"]: record["version"] for record in sorted(whole.records, key=itemgetter("version"))}
    assert all(record["version"] >= greatest.get(record["parent"], 0) for record in again.records)


def row(parent: int, number: int, version: int) -> Record:
    return {"parent": f"p{parent}", "id": number, "version": version}


def in_order(records: Iterable[Record]) -> list[str]:
    return sorted(map(canonical, records))
