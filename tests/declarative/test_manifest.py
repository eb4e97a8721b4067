"""What an author is told of a manifest that is wrong. The texts are exact: read them as the author would."""

import logging
from itertools import pairwise
from pathlib import Path

import pytest

from cdk.base.errors import ManifestError
from cdk.declarative.components import register
from cdk.declarative.manifest import Manifest
from cdk.declarative.source import ManifestSource
from tests.work import counted_calls

GOOD = """\
version: 6.0.0
type: DeclarativeSource
check:
  type: CheckStream
  stream_names: [users]
definitions:
  requester:
    type: HttpRequester
    url_base: https://api.example.com
    http_method: GET
streams:
  - type: DeclarativeStream
    name: users
    primary_key: id
    retriever:
      type: SimpleRetriever
      requester:
        $ref: "#/definitions/requester"
        path: /users
      record_selector:
        type: RecordSelector
        extractor:
          type: DpathExtractor
          field_path: [data]
      paginator:
        type: DefaultPaginator
        pagination_strategy:
          type: OffsetIncrement
          page_size: 100
        page_size_option:
          type: RequestOption
          inject_into: request_parameter
          field_name: limit
    incremental_sync:
      type: DatetimeBasedCursor
      cursor_field: updated_at
      datetime_format: "%Y-%m-%d"
      start_datetime: "2024-01-01"
"""
STRATEGY = "streams[0].retriever.paginator.pagination_strategy"
STRATEGIES = "expected one of CursorPagination, CustomPaginationStrategy, OffsetIncrement, PageIncrement"
EXTRACTOR = "streams[0].retriever.record_selector.extractor"
CURSOR = "streams[0].incremental_sync"
OPTION = "streams[0].retriever.paginator.page_size_option"

MISTAKES = {
    "a type with a slip": (
        ("type: OffsetIncrement", "type: OffsetIncremnt"),
        f":28 {STRATEGY}.type: unknown type 'OffsetIncremnt'; did you mean 'OffsetIncrement'?",
    ),
    "a component of another family": (
        ("type: OffsetIncrement", "type: NoPagination"),
        f":28 {STRATEGY}.type: a NoPagination is not allowed here, {STRATEGIES}",
    ),
    "no type": (
        ("          type: OffsetIncrement\n", ""),
        f":27 {STRATEGY}: this PaginationStrategy has no `type`, {STRATEGIES}",
    ),
    "a required field with a slip": (
        ("    retriever:", "    retreiver:"),
        (
            ":15 streams[0].retreiver: DeclarativeStream needs the field 'retriever'; "
            "found 'retreiver', did you mean 'retriever'?"
        ),
    ),
    "a required field that is missing": (
        ("          field_path: [data]\n", ""),
        f":22 {EXTRACTOR}: DpathExtractor needs the field 'field_path', a list of strings or integers",
    ),
    "a string for a list": (
        ("field_path: [data]", "field_path: data"),
        f":24 {EXTRACTOR}.field_path: found 'data', expected a list of strings or integers; write ['data']",
    ),
    "a number for a string": (
        ("path: /users", "path: 5"),
        ":19 streams[0].retriever.requester.path: found 5, expected a string; write '5', in quotes",
    ),
    "a version without quotes": (
        ("version: 6.0.0", "version: 6.0"),
        ":1 version: found 6.0, expected a string; write '6.0', in quotes",
    ),
    "a choice with a slip": (
        ("inject_into: request_parameter", "inject_into: request_parameters"),
        (
            f":32 {OPTION}.inject_into: found 'request_parameters', expected one of 'request_parameter', "
            "'header', 'body_data', 'body_json'; did you mean 'request_parameter'?"
        ),
    ),
    "a string for a boolean": (
        ("cursor_field: updated_at", "is_data_feed: maybe\n      cursor_field: updated_at"),
        f":36 {CURSOR}.is_data_feed: found 'maybe', expected true or false",
    ),
    "one of several forms, with a slip inside": (
        ('start_datetime: "2024-01-01"', "start_datetime: {type: MinMaxDatetime, datetme: x}"),
        (
            f":38 {CURSOR}.start_datetime.datetme: MinMaxDatetime needs the field 'datetime'; "
            "found 'datetme', did you mean 'datetime'?"
        ),
    ),
    "none of several forms": (
        ('start_datetime: "2024-01-01"', "start_datetime: 2024"),
        (f":38 {CURSOR}.start_datetime: found 2024, expected a string or a MinMaxDatetime; write '2024', in quotes"),
    ),
    "lists of several forms": (
        ("primary_key: id", "primary_key: [1]"),
        (
            ":14 streams[0].primary_key: found a list of 1, expected a string, a list of strings or a list of lists of "
            "strings"
        ),
    ),
    "a string for a component": (
        ("        extractor:\n          type: DpathExtractor\n          field_path: [data]", "        extractor: data"),
        (
            f":22 {EXTRACTOR}: found 'data', expected an Extractor; "
            "write an object with `type: DpathExtractor`, or '#/definitions/data' if that is meant"
        ),
    ),
    "a number for a list": (
        ("http_method: GET", "error_handler: {type: DefaultErrorHandler, response_filters: [{http_codes: 404}]}"),
        (
            ":10 streams[0].retriever.requester.error_handler.response_filters[0].http_codes: "
            "found 404, expected a list of integers; write [404]"
        ),
    ),
    "a stream without a name": (
        ("    name: users\n", ""),
        ":12 streams[0]: the stream has no name; write one as `name`",
    ),
    "one router without its list and its type": (
        ("      paginator:", "      partition_router: {values: [a], cursor_field: b}\n      paginator:"),
        (
            ":25 streams[0].retriever.partition_router: this PartitionRouter has no `type`, expected one of "
            "CustomPartitionRouter, GroupingPartitionRouter, ListPartitionRouter, SubstreamPartitionRouter, "
            "UnionPartitionRouter"
        ),
    ),
    "an object for a list": (
        (
            "streams:\n  - type: DeclarativeStream\n    name: users",
            "streams:\n    type: DeclarativeStream\n    name: u",
        ),
        (
            ":11 streams: found a DeclarativeStream, expected a list of Streams; "
            "write it after a dash (-), as an element of a list"
        ),
    ),
    "no streams": (
        ("streams:\n", "stream:\n"),
        (
            ":1: a manifest needs `streams` or `dynamic_streams`\n"
            "FILE:11 stream: unknown field 'stream' of DeclarativeSource; did you mean 'streams'?"
        ),
    ),
    "parameters that are none": (
        ("    name: users\n", "    $parameters: [x]\n"),
        ":13 streams[0].$parameters: found a list of 1, expected an object",
    ),
    "a field that a parameter filled": (
        ("    name: users\n", "    $parameters: {name: 5}\n"),
        ":12 streams[0].name: found 5, expected a string; write '5', in quotes; it came from $parameters",
    ),
    "a rule between two fields": (
        ("          field_name: limit\n", ""),
        f":30 {OPTION}: a RequestOption needs either field_name or field_path, and not both",
    ),
    "a number that is too small": (
        ("type: CheckStream\n  stream_names: [users]", "type: CheckDynamicStream\n  stream_count: -1"),
        ":5 check.stream_count: found -1, expected 0 or more",
    ),
    "a reference that leads nowhere": (
        ('definitions/requester"', 'definitions/requestor"'),
        (
            ":18 streams[0].retriever.requester.$ref: the reference '#/definitions/requestor' cannot be resolved: "
            "there is no 'requestor'; did you mean 'requester'?"
        ),
    ),
    "a reference without its beginning": (
        ('"#/definitions/requester"', "/definitions/requester"),
        (
            ":18 streams[0].retriever.requester.$ref: the reference '/definitions/requester' cannot be resolved: "
            "expected a part of this manifest, such as '#/definitions/requester'"
        ),
    ),
    "a reference that is no string": (
        ('"#/definitions/requester"', "5"),
        (
            ":18 streams[0].retriever.requester.$ref: "
            "found 5, expected a part of this manifest, such as '#/definitions/requester'"
        ),
    ),
    "references in a circle": (
        ("http_method: GET", '$ref: "#/definitions/requester"'),
        (
            ":10 definitions.requester.$ref: the references are circular: "
            "#/definitions/requester -> #/definitions/requester"
        ),
    ),
    "an expression without quotes": (
        ("path: /users", "path: {{ config.x }}"),
        (
            ":19:16: is not YAML: found a key that is a list or an object, expected a string; "
            "put a value that begins with {{ in quotes"
        ),
    ),
    "a type that is no longer there": (
        ("type: DatetimeBasedCursor", "type: PerPartitionCursor"),
        (
            f":35 {CURSOR}.type: the type 'PerPartitionCursor' is no longer part of the language: "
            "use incremental_sync and partition_router, which are combined automatically"
        ),
    ),
    "nothing where something must be": (
        ("        extractor:\n          type: DpathExtractor\n          field_path: [data]", "        extractor:"),
        f":22 {EXTRACTOR}: found nothing (null), expected an Extractor; write an object with `type: DpathExtractor`",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_place_and_what_to_write(mistake: str, tmp_path: Path) -> None:
    (old, new), told = MISTAKES[mistake]
    file = _written(tmp_path, (old, new))

    with pytest.raises(ManifestError) as refused:
        Manifest.load(file).root()

    assert f"{file}{told}".replace("FILE", str(file)) == str(refused.value)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    file = _written(
        tmp_path,
        ("type: OffsetIncrement", "type: OffsetIncremnt"),
        ("path: /users", "path: 5"),
        ("cursor_field: updated_at", "cursor_feild: updated_at"),
        ("primary_key: id", "primary_kye: id"),
    )

    with pytest.raises(ManifestError) as refused:
        Manifest.load(file).root()

    assert [
        f"{file}:19 streams[0].retriever.requester.path",
        f"{file}:28 {STRATEGY}.type",
        f"{file}:36 {CURSOR}.cursor_feild",
        f"{file}:14 streams[0].primary_kye",
    ] == [line.partition(": ")[0] for line in str(refused.value).splitlines()]


def test_a_mistake_that_many_places_refer_to_is_told_once(tmp_path: Path) -> None:
    more = """\
  - type: DeclarativeStream
    name: projects
    retriever:
      type: SimpleRetriever
      requester: {$ref: "#/definitions/requester"}
      record_selector: {type: RecordSelector, extractor: {type: DpathExtractor, field_path: []}}
"""
    file = _written(tmp_path, ("http_method: GET", "http_method: 5"))
    file.write_text(file.read_text() + more)

    with pytest.raises(ManifestError) as refused:
        Manifest.load(file).root()

    place = f"{file}:10 streams[0].retriever.requester.http_method"
    said = "found 5, expected one of 'GET', 'POST', 'PUT', 'PATCH', 'DELETE' (referred to from 2 places)"
    assert f"{place}: {said}" == str(refused.value)


def test_no_words_of_python_are_in_an_error(tmp_path: Path) -> None:
    for (old, new), _ in MISTAKES.values():
        with pytest.raises(ManifestError) as refused:
            Manifest.load(_written(tmp_path, (old, new))).root()
        text = str(refused.value)

        assert [
            word for word in ("Input", "function", "pydantic", "dict", "str ", "<class", "None") if word in text
        ] == []


def test_a_field_with_a_slip_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = _written(tmp_path, ("      paginator:", "      pagnator:"))
    with caplog.at_level(logging.WARNING, "cdk"):
        Manifest.load(file).root()

    place = f"{file}:25 streams[0].retriever.pagnator"
    assert [f"{place}: unknown field 'pagnator' of SimpleRetriever; did you mean 'paginator'?"] == caplog.messages


def test_fields_that_parameters_or_other_components_bring_are_not_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = _written(
        tmp_path,
        (
            "    name: users\n",
            "    $parameters: {name: users, http_methode: x, slice_values: a}\n    stream_slicer: {}\n    x: 1\n",
        ),
    )
    with caplog.at_level(logging.WARNING, "cdk"):
        Manifest.load(file).root()

    place = f"{file}:14 streams[0].stream_slicer"
    advice = "use partition_router, or incremental_sync of the stream instead"
    assert [f"{place}: the field 'stream_slicer' of DeclarativeStream is ignored; {advice}"] == caplog.messages


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", ":1: found nothing (null), expected an object with `version`, `check` and `streams`"),
        (b"- a\n", ":1: found a list of 1, expected an object with `version`, `check` and `streams`"),
        (b"hello\n", ":1: found 'hello', expected an object with `version`, `check` and `streams`"),
        (b"\xff\xfe\x00", ": is not valid UTF-8; a manifest must be a UTF-8 text file"),
        (b"a: " + b"[" * 300 + b"]" * 300, ":1:203: is not YAML: it is nested deeper than 200 levels"),
        (b"a: 1\na: 2\n", ":2:1: is not YAML: found the key 'a' twice; keep one"),
    ],
)
def test_a_file_that_is_no_manifest_is_told_as_such(text: bytes, told: str, tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_bytes(text)

    with pytest.raises(ManifestError) as refused:
        Manifest.load(file).root()

    assert f"{file}{told}" == str(refused.value)


def test_an_object_that_is_nested_too_deeply_is_told_as_such() -> None:
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"a": deep}

    with pytest.raises(ManifestError, match="nested too deeply"):
        Manifest({"version": "6.0.0", "check": deep}).root()


def test_aliases_that_grow_without_end_are_refused_at_once(tmp_path: Path) -> None:
    names = "abcdefghij"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]" for old, new in pairwise(names)]
    file = tmp_path / "manifest.yaml"
    file.write_text("\n".join(["version: 6.0.0", "check: {}", *lines, "streams: *j\n"]))

    with (
        counted_calls() as calls,
        pytest.raises(ManifestError, match="its anchors and merges make more than 2000000 values"),
    ):
        Manifest.load(file).root()

    assert calls.made < 10_000


def test_references_that_grow_without_end_are_refused_at_once() -> None:
    definitions: dict[str, object] = {"a": ["x"] * 10}
    definitions |= {new: [f"#/definitions/{old}"] * 10 for old, new in pairwise("abcdefghij")}
    manifest = {"version": "6.0.0", "definitions": definitions, "check": {}, "streams": "#/definitions/j"}

    register()  # once a process
    with counted_calls() as calls, pytest.raises(ManifestError, match="more than 2,000,000 parts"):
        Manifest(manifest).root()

    assert calls.made < 10_000


def test_loading_a_manifest_takes_work_in_proportion_to_its_streams(tmp_path: Path) -> None:
    head, _, stream = GOOD.partition("streams:\n")
    file = tmp_path / "manifest.yaml"

    def work(streams: int) -> int:
        file.write_text(
            head + "streams:\n" + "".join(stream.replace("name: users", f"name: users{n}") for n in range(streams))
        )
        with counted_calls() as calls:
            Manifest.load(file).root()
        return calls.made

    work(1)
    few, many = work(20), work(200)

    assert many < 11 * few


def test_two_streams_of_one_name_are_told_with_the_line_of_the_second(tmp_path: Path) -> None:
    file = _written(tmp_path)
    file.write_text(GOOD + GOOD.partition("streams:\n")[2])

    with pytest.raises(ManifestError) as refused:
        Manifest.load(file).root()

    assert f"{file}:40 streams[1].name: streams[0] has the name 'users' too; rename one" == str(refused.value)


def test_merged_keys_and_aliases_are_told_where_they_are_written(tmp_path: Path) -> None:
    file = _written(
        tmp_path,
        ("definitions:\n  requester:\n", "definitions:\n  requester: &requester\n"),
        ('        $ref: "#/definitions/requester"\n', "        <<: *requester\n"),
        ("http_method: GET", "http_method: [GET]"),
    )

    with pytest.raises(ManifestError) as refused:
        Manifest.load(file).root()

    place = f"{file}:10 streams[0].retriever.requester.http_method"
    assert str(refused.value).startswith(f"{place}: found a list of 1, expected one of 'GET', 'POST'")


def test_an_error_of_building_is_given_its_line(tmp_path: Path) -> None:
    file = _written(tmp_path, ("cursor_field: updated_at", "cursor_field: updated_at\n      step: P1D"))
    manifest = Manifest.load(file)
    with pytest.raises(ManifestError) as raised:
        ManifestSource(manifest).streams({})
    # Whether the source has located it already or not, it is located once.
    error = ManifestError(raised.value.message)

    told = "users: DatetimeBasedCursor.step: step and cursor_granularity require each other: set both or neither"
    assert f"{file}:37: {told}" == str(manifest.located(error))


def test_an_error_of_building_that_could_be_meant_for_two_lines_stays_as_it_is(tmp_path: Path) -> None:
    file = _written(tmp_path)
    file.write_text(GOOD + GOOD.partition("streams:\n")[2].replace("name: users", "name: others"))
    manifest = Manifest.load(file)

    vague = ManifestError("HttpRequester.path: no good")
    assert manifest.located(vague) is vague
    assert str(manifest.located(ManifestError("others: HttpRequester.path: no good"))).startswith(f"{file}:46: ")
    other = ManifestError("something else")
    assert manifest.located(other) is other


@pytest.mark.parametrize(
    ("component", "line"),
    [
        ("users: DatetimeBasedCursor", "incremental_sync:"),
        ("DpathExtractor", "extractor:"),
        ("users: SimpleRetriever", "retriever:"),
        ("HttpRequester", "requester:"),
    ],
)
def test_an_error_about_a_field_that_is_missing_names_the_line_of_its_component(
    tmp_path: Path, component: str, line: str
) -> None:
    file = _written(tmp_path)
    manifest = Manifest.load(file)

    where = str(manifest.located(ManifestError(f"{component}.unwritten: there is none"))).split(":")

    written = GOOD.splitlines()[int(where[1]) - 2 : int(where[1])]
    assert where[0] == str(file)
    assert any(each.strip() == line for each in written)


def test_a_manifest_that_is_no_file_is_told_by_its_path() -> None:
    with pytest.raises(ManifestError) as refused:
        Manifest({"version": "6.0.0", "check": {"type": "CheckStreem"}, "streams": []}).root()

    assert str(refused.value) == "manifest: check.type: unknown type 'CheckStreem'; did you mean 'CheckStream'?"


def test_secrets_of_a_config_are_in_no_error(tmp_path: Path) -> None:
    file = _written(tmp_path, ('start_datetime: "2024-01-01"', 'start_datetime: "{{ config.password.x.y }}"'))

    with pytest.raises(ManifestError) as refused:
        ManifestSource.load(file).streams({"password": "hunter2"})

    assert "hunter2" not in f"{refused.value} {refused.value.detail}"


def _written(folder: Path, *changes: tuple[str, str]) -> Path:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "manifest.yaml"
    file.write_text(text)
    return file
