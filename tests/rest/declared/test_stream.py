import gzip
import pickle
import zipfile
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path

import pytest
from pyspark import cloudpickle

from cdk import CountCursor, FatalError, Json, Record
from cdk.protocol.messages import AirbyteStateMessage
from cdk.rest import (
    ApiKey,
    CsvRows,
    Decoder,
    GzipFile,
    JsonDocument,
    JsonItems,
    Jsonl,
    OAuth2,
    Offset,
    PageNumber,
    RestSource,
    TextLines,
    XmlDocument,
    ZipArchive,
    resource,
)
from cdk.rest.tracing import tracing
from cdk.sources.discovery import find_source
from cdk.testing import MockApi, ReadResult, read

CONFIG = {"url": "https://api.test/v1", "token": "s3cret", "kind": "big"}
OWNERS = resource("owners", "/owners", records_path=["data", "owners"], primary_key="name")
REPOS = resource(
    "repos",
    "/owners/{owners.name}/repos",
    primary_key=["owner", "id"],
    paginator=Offset(2),
    add_fields={"owner": "{owners.name}", "since": "{owners.since}"},
)
ISSUES = resource(
    "issues",
    "/repos/{repos.id}/issues",
    params={"owner": "{owners.name}", "after": "{window.start}", "before": "{window.end}", "kind": "{config.kind}"},
    cursor=lambda config: CountCursor("version", start=len(config["kind"])),
)
SOURCE = RestSource("{config.url}", OWNERS, REPOS, ISSUES, auth=ApiKey("{config.token}", name="key"), params={"v": 2})


def forge() -> MockApi:
    """An API of two owners with two repositories each; ids of repositories are unique in their owner alone."""
    api, key = MockApi(), {"key": "s3cret"}
    owners = [{"name": "a/b", "since": 2001}, {"name": "c", "since": None}]
    api.get("/v1/owners", params={"v": 2}, headers=key).returns(json={"data": {"owners": owners}})
    for owner in ("a%2Fb", "c"):
        api.get(f"/v1/owners/{owner}/repos", params={"offset": 0}, headers=key).returns(json=[{"id": 1}, {"id": 2}])
        api.get(f"/v1/owners/{owner}/repos", params={"offset": 2}, headers=key).returns(json=[])
    api.get("/v1/repos/*/issues", headers=key).returns(json=[{"version": 3}, {"version": 8}])
    return api


def records(source: RestSource, api: MockApi, stream: str, config: Mapping[str, Json] = CONFIG) -> Sequence[Record]:
    result = read(source, stream, config=config, transport=api)
    assert result.error is None, result.error
    return result.records


def test_a_resource_is_read_for_each_record_of_another_and_has_its_fields() -> None:
    assert records(SOURCE, forge(), "repos") == [
        {"id": 1, "owner": "a/b", "since": 2001},
        {"id": 2, "owner": "a/b", "since": 2001},
        {"id": 1, "owner": "c"},
        {"id": 2, "owner": "c"},
    ]


def test_parents_of_parents_may_be_named_and_windows_and_the_config() -> None:
    api = forge()
    result = read(SOURCE, "issues", config=CONFIG, transport=api)

    sent = [request for request in api.requests if "issues" in request.url]
    assert [(request.url[-8:-7], request.params["owner"]) for request in sent] == [
        (id, owner) for owner in ("a/b", "c") for id in "12"
    ]
    # A window of numbers has no end, and what is null is left out.
    assert {request.full_url.partition("&")[2] for request in sent} == {
        "owner=a%2Fb&after=3&kind=big",
        "owner=c&after=3&kind=big",
    }
    assert len(result.records) == 8
    again = read(SOURCE, "issues", config=CONFIG, transport=(api := forge()), state=result.state_messages)
    assert (again.error, again.records) == (None, [{"version": 8}] * 4)
    assert {request.params["after"] for request in api.requests if "issues" in request.url} == {8}


def test_parents_are_requested_once_in_a_run_whoever_needs_them() -> None:
    api = forge()
    result = read(SOURCE, config=CONFIG, transport=api)

    assert result.error is None
    assert len([request for request in api.requests if request.url.endswith("/owners")]) == 1
    assert len(api.requests) == 1 + 4 + 4


def test_what_a_filter_drops_ends_no_pages() -> None:
    rows: list[Record] = [
        {"id": 1, "kind": None},
        {"id": 2, "kind": "x"},
        *({"id": id, "kind": "x"} for id in (3, 4)),
        {"id": 5, "kind": "y"},
        {"id": 6},
        {"id": 7, "kind": "y"},
        *({"id": id, "kind": "x"} for id in (8, 9)),
    ]
    api = MockApi()
    api.get("/rows").serves(rows, size=2)
    rest = resource("rows", "/rows", paginator=PageNumber(size=2), record_filter={"kind": ["y", None]})

    with tracing() as trace:
        assert [record["id"] for record in records(RestSource("https://api.test", rest), api, "rows")] == [1, 5, 6, 7]

    # Of the last page, which is what an author sees in a preview.
    assert trace.page is not None
    assert (trace.page.extracted, trace.page.selected) == (1, 0)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"record_filter": {"hiden": False}}, r"record_filter: found no field 'hiden' .* did you mean 'hidden'\?"),
        ({"add_fields": {"id": "{config.id}"}}, r"add_fields: records already have a field 'id'"),
    ],
)
def test_mappings_that_do_not_fit_the_records_are_refused(options: Mapping[str, Json], error: str) -> None:
    api = MockApi()
    api.get("/rows").returns(json=[{"id": 1, "hidden": False}])
    source = RestSource("https://api.test", resource("rows", "/rows", **options))

    with pytest.raises(FatalError, match=error):
        raise read(source, "rows", config={"id": "2"}, transport=api).error or AssertionError


def test_a_parent_without_the_field_is_an_error_with_the_nearest_one() -> None:
    source = RestSource("{config.url}", OWNERS, resource("repos", "/owners/{owners.nam}/repos"), auth=None)
    api = MockApi()
    api.get("/v1/owners").returns(json={"data": {"owners": [{"name": "a"}]}})

    error = read(source, "repos", config=CONFIG, transport=api).error

    assert "found no field 'nam' in a record of 'owners'" in str(error)
    assert "did you mean 'name'?" in str(error)


def test_a_body_is_posted() -> None:
    api = MockApi()
    query = "{{ users(kind: {config.kind}) {{ id }} }}"
    api.post("/graphql", body={"query": "{ users(kind: big) { id } }", "size": 3}).returns(json={"users": [{"id": 1}]})
    users = resource(
        "users", "", records_path="users", body_json={"query": query, "size": 3}, headers={"X-Kind": "{config.kind}"}
    )

    assert records(RestSource("https://api.test/graphql", users), api, "users") == [{"id": 1}]
    assert api.requests[0].headers["X-Kind"] == "big"


def test_logins_have_the_values_of_the_config_and_are_shared() -> None:
    api = MockApi()
    api.issues_tokens("/v1/token", uses=10)
    api.get("/v1/owners").returns(json={"data": {"owners": [{"name": "a", "since": 2001}]}})
    api.get("/v1/owners/a/repos").returns(json=[])
    auth = OAuth2("{config.url}/token", client_id="kit", client_secret="{config.token}", scopes=["{config.kind}"])
    source = RestSource("{config.url}", OWNERS, REPOS, auth=auth)

    assert read(source, config=CONFIG, transport=api).error is None
    assert [request.body for request in api.requests if request.url.endswith("/token")] == [
        b"grant_type=client_credentials&client_id=kit&client_secret=s3cret&scope=big"
    ]


def test_children_may_be_read_for_new_records_of_the_parent_alone() -> None:
    builds = resource("builds", "/builds", params={"since": "{window.start}"}, cursor=CountCursor("number"))
    steps = resource("steps", "/builds/{builds.number}/steps", cursor=CountCursor("at"), follows_parent=True)
    source = RestSource("https://api.test", builds, steps)

    def requested(state: Sequence[AirbyteStateMessage], *numbers: int) -> tuple[list[str], ReadResult]:
        api = MockApi()
        api.get("/builds").serves([{"number": number} for number in numbers], size=9, since=("since", "number"))
        api.get("/builds/*/steps").returns(json=[{"at": 1}])
        result = read(source, "steps", transport=api, state=state)
        assert result.error is None, result.error
        return [request.url.split("/")[-2] for request in api.requests if "steps" in request.url], result

    before, first = requested((), 1, 2)
    after, _ = requested(first.state_messages, 1, 2, 3)

    # The last one may have had more records of its number.
    assert (before, after) == (["1", "2"], ["2", "3"])


def test_what_the_source_says_holds_for_resources_that_say_nothing_else() -> None:
    own = resource("own", "/own", records_path=(), primary_key=["at", "id"])
    source = RestSource("https://api.test", resource("all", "/all"), own, records_path="data", primary_key="id")
    api = MockApi()
    api.get("/all").returns(json={"data": [{"id": 1}]})
    api.get("/own").returns(json=[{"id": 2, "at": 3}])

    assert (records(source, api, "all"), records(source, api, "own")) == ([{"id": 1}], [{"id": 2, "at": 3}])
    assert [stream.key_paths for stream in source.open({})] == [[["id"]], [["at"], ["id"]]]


def zipped(*files: bytes) -> bytes:
    with zipfile.ZipFile(packed := BytesIO(), "w") as archive:
        for number, file in enumerate(files):
            archive.writestr(f"{number}.csv", file)
    return packed.getvalue()


ONE_TWO = [{"id": "1"}, {"id": "2"}]


@pytest.mark.parametrize(
    ("decoder", "records_path", "body", "expected"),
    [
        (None, "data", b'{"data": [{"id": "1"}, {"id": "2"}]}', ONE_TWO),
        (JsonDocument(lenient=True), "data", b'{"data": [{"id": "1"}, {"id": "2", "x": NaN}]}', ONE_TWO),
        (Jsonl(), (), b'{"id": "1"}\n\n{"id": "2"}', ONE_TWO),
        (Jsonl(lenient=True), (), b'{"id": "1"}\noops\n{"id": "2"}\n', ONE_TWO),
        (CsvRows(), (), b"id\n1\n2\n", ONE_TWO),
        (CsvRows(encoding="latin-1", delimiter=";"), (), b"id;name\n1;\xe9\n", [{"id": "1", "name": "\xe9"}]),
        (GzipFile(CsvRows()), (), gzip.compress(b"id\n1\n2\n"), ONE_TWO),
        (GzipFile(Jsonl()), (), b'{"id": "1"}\n{"id": "2"}\n', ONE_TWO),
        (ZipArchive(CsvRows()), (), zipped(b"id\n1\n", b"id\n2\n"), ONE_TWO),
        (TextLines(), (), b"a\nb\n", [{"record": "a"}, {"record": "b"}]),
        (JsonItems("data"), (), b'{"data": [{"id": "1"}, {"id": "2"}]}', ONE_TWO),
        (XmlDocument(), ["rows", "row"], b"<rows><row><id>1</id></row><row><id>2</id></row></rows>", ONE_TWO),
    ],
)
@pytest.mark.parametrize("said_by", ["resource", "source"])
def test_bodies_are_read_by_the_decoder_of_the_resource_or_of_the_source(
    decoder: Decoder | None, records_path: str | Sequence[str], body: bytes, expected: Sequence[Record], *, said_by: str
) -> None:
    own, common = (decoder, Jsonl() if decoder else None) if said_by == "resource" else (None, decoder)
    rows = resource("rows", "/rows", decoder=own, records_path=records_path)
    api = MockApi()
    api.get("/rows").returns(body=body)

    assert records(RestSource("https://api.test", rows, decoder=common), api, "rows") == expected


def test_a_resource_whose_lines_are_no_json_says_which_decoder_reads_them() -> None:
    api = MockApi()
    api.get("/rows").returns(body=b'{"id": 1}\noops\n')

    error = read(RestSource("https://api.test", resource("rows", "/rows", decoder=Jsonl())), transport=api).error

    assert error is not None
    assert "line 2 is not JSON" in str(error)
    assert "`Jsonl(lenient=True)`" in str(error)


def test_a_schema_is_a_file_beside_the_module_that_declares_the_resource(tmp_path: Path) -> None:
    (tmp_path / "forge.py").write_text(
        "from cdk.rest import RestSource, resource\n"
        "source = RestSource('https://a.test', resource('users', '/u'), resource('own', '/o', schema={'title': 'o'}))\n"
    )
    (tmp_path / "schemas").mkdir()
    for name in ("users", "own"):
        (tmp_path / "schemas" / f"{name}.json").write_text('{"title": "of the file"}')

    streams = find_source(str(tmp_path / "forge.py")).open({})

    assert [stream.json_schema() for stream in streams] == [{"title": "of the file"}, {"title": "o"}]


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_streams_travel_with_their_parents(dumps: Callable[[object], bytes]) -> None:
    repos = {stream.name: stream for stream in SOURCE.open(CONFIG)}["repos"]
    there = pickle.loads(dumps(repos))  # noqa: S301 - our own bytes

    assert there.key_paths == [["owner"], ["id"]]
    assert read(there, transport=forge()).records == records(SOURCE, forge(), "repos")
