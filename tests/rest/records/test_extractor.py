import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from cdk import DecodeError
from cdk.base.values import Record
from cdk.rest import JsonDocument, Jsonl
from cdk.rest.records.csv_file import FileExtractor
from cdk.rest.records.expand import Expander, Truncation
from cdk.rest.records.extractor import CountedRecords, Extractor, ExtractorGroup, FieldExtractor
from tests.rest.api import response


def found(body: Any, *where: str) -> list[Any]:
    (page,) = FieldExtractor(JsonDocument(), where).pages(response(body))
    return list(page)


@pytest.mark.parametrize(
    ("where", "body", "expected"),
    [
        ([], [{"id": 1}, {"id": 2}], [{"id": 1}, {"id": 2}]),
        ([], [{}, {"id": 1}, None], [{"id": 1}]),
        ([], [[{"a": 1}], [{"b": 2}]], [{"a": 1}, {"b": 2}]),
        ([], {"id": 1}, [{"id": 1}]),
        ([], {}, []),
        ([], None, []),
        ([], [], []),
        (["data"], {"data": [{"id": 1}, {}]}, [{"id": 1}, {}]),
        (["data"], {"data": {"id": 1}}, [{"id": 1}]),
        (["data"], {"data": {}}, []),
        (["data"], {"data": None}, []),
        (["data"], {"data": 0}, []),
        (["data"], {}, []),
        (["data"], [{"data": [{"a": 1}]}, {"data": {"b": 2}}, {"data": None}, {}], [{"a": 1}, {"b": 2}]),
        (["data", "0"], {"data": [{"a": 1}, {"a": 2}]}, [{"a": 1}]),
        (["a.b"], {"a.b": [{"x": 1}], "a": {"b": [{"y": 1}]}}, [{"x": 1}]),
        (["*"], {"x": {"a": 1}, "y": [{"b": 2}, {"c": 3}]}, [{"a": 1}, {"b": 2}, {"c": 3}]),
        (["*", "*"], {"x": {"y": {"a": 1}}}, [{"a": 1}]),
        (["data", "*", "items"], {"data": [{"items": [{"a": 1}]}, {"items": {"b": 1}}, {}]}, [{"a": 1}, {"b": 1}]),
        (["*"], [{"id": 1}, {"id": 2}], [{"id": 1}, {"id": 2}]),
        (["*"], [{"u": {"id": 1}}, {"v": {"id": 2}}], [{"id": 1}, {"id": 2}]),
        (["*", "data"], [{"data": [{"a": 1}]}, {"data": [{"a": 2}]}], [{"a": 1}, {"a": 2}]),
    ],
)
def test_records_are_found_at_a_path(where: list[str], body: Any, expected: list[Any]) -> None:
    assert found(body, *where) == expected


def test_the_list_in_the_body_is_not_copied() -> None:
    answer = response({"data": [{"id": 1}]})

    (page,) = FieldExtractor(JsonDocument(), ("data",)).pages(answer)

    assert page is answer.json()["data"]


@pytest.mark.parametrize("data", ["text", 5, ["x"], [{"a": 1}, 3], [[{"a": 1}]]])
def test_what_is_no_object_is_an_error(data: Any) -> None:
    with pytest.raises(DecodeError, match=r"found a \w+ at data, expected objects"):
        found({"data": data}, "data")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"items": [], "total": 0}, "no 'item' in the body, whose fields are 'items', 'total' (is it 'items'?)"),
        ({"item": {"rows": []}}, "no 'data' in 'item', whose fields are 'rows'"),
        ({"item": {"data": []}}, ""),
        ({"item": {"data": None}}, ""),
        ({"item": []}, ""),
        ({}, ""),
        ([], ""),
        ({"item": [{"data": []}]}, "no 'data' in 'item', which is a list"),
        ({"item": "none"}, "no 'data' in 'item', which is a string"),
        ([{"items": []}], "no 'item' in an element of the body, whose fields are 'items' (is it 'items'?)"),
        ([{"items": []}, {"item": {"data": []}}], ""),
    ],
)
def test_where_a_path_comes_to_an_end_is_named_with_the_fields_that_are_there(body: Any, said: str) -> None:
    assert FieldExtractor(JsonDocument(), ("item", "data")).absence(response(body)) == said


def test_values_that_are_no_records_can_be_asked_for() -> None:
    extractor = FieldExtractor(JsonDocument(), ("urls",))

    assert list(extractor.values(response({"urls": ["a", "b"]}))) == [["a", "b"]]
    assert list(extractor.values(response({"urls": "a"}))) == [["a"]]


def test_nulls_among_records_are_left_out_and_still_counted() -> None:
    (page,) = FieldExtractor(JsonDocument(), ("data",)).pages(response({"data": [{"id": 1}, None]}))

    assert page == [{"id": 1}]
    assert isinstance(page, CountedRecords)
    assert page.raw == 2


def test_a_decoder_that_streams_gives_pages() -> None:
    body = b'{"data": {"id": 1}}\n' * 2500

    pages = FieldExtractor(Jsonl(), ("data",)).pages(response(body=body))

    assert [len(page) for page in pages] == [1000, 1000, 500]


PARENT = {"id": 1, "name": "n", "p": {"q": 7}, "lines": {"data": [{"x": 1}, {"x": 2, "id": 9}], "url": "u"}}
WHERE = ("lines", "data")


def expanded(expander: Expander, *parents: dict[str, Any]) -> list[dict[str, Any]]:
    return [record for page in expander(list(parents)) for record in page]


def test_the_elements_of_an_inner_list_become_records() -> None:
    assert expanded(Expander(WHERE), PARENT, {"id": 2}) == [{"x": 1}, {"x": 2, "id": 9}]


@pytest.mark.parametrize("lines", [[], {"x": 1}, "text", None])
def test_a_record_without_a_list_is_left_out_or_stays(lines: Any) -> None:
    parent = {"id": 2, "lines": {"data": lines}}

    assert expanded(Expander(WHERE), parent) == []
    assert expanded(Expander(WHERE, emit_parent=True, remain_original=True), parent) == [parent]


def test_elements_get_what_they_are_told_to_get_of_their_parent() -> None:
    copied = ((("p",), ("of", "p")), (("none",), ("none",)))
    expander = Expander(WHERE, remain_original=True, merge_parent=True, parent_fields=copied)
    parent = {"name": "n", "p": {"q": 7}, "lines": {"url": "u"}, "of": {"p": {"q": 7}}, "none": None}

    assert expanded(expander, PARENT) == [
        {**parent, "id": 1, "x": 1, "original_record": PARENT},
        {**parent, "id": 9, "x": 2, "original_record": PARENT},
    ]


def test_writing_into_one_element_changes_no_other() -> None:
    first, second = expanded(Expander(WHERE, merge_parent=True, parent_fields=((("p",), ("of",)),)), PARENT)
    first["lines"]["url"] = first["of"]["q"] = first["p"]["q"] = "changed"

    assert second == {"id": 9, "name": "n", "p": {"q": 7}, "lines": {"url": "u"}, "x": 2, "of": {"q": 7}}
    assert PARENT["lines"] == {"data": [{"x": 1}, {"x": 2, "id": 9}], "url": "u"}


def test_a_value_cannot_be_put_into_what_is_no_object() -> None:
    with pytest.raises(DecodeError, match=r"found a number at 'x' of a record"):
        expanded(Expander(WHERE, parent_fields=((("id",), ("x", "y")),)), PARENT)


def test_elements_that_are_no_objects_become_values() -> None:
    assert expanded(Expander(("s",)), {"s": ["a", None, {}]}) == [{"value": "a"}, {"value": None}, {}]


def test_a_wildcard_expands_several_lists() -> None:
    parent = {"s": [{"l": [{"x": 1}]}, {"l": {"x": 9}}, {"l": [{"x": 2}]}], "o": {"u": {"x": 1}}}

    assert expanded(Expander(("s", "*", "l")), parent) == [{"x": 1}, {"x": 2}]
    assert expanded(Expander(("o", "*")), parent) == []
    assert expanded(Expander(("s", "*", "l"), merge_parent=True), parent)[1] == {
        "s": [{}, {"l": {"x": 9}}, {}],
        "o": {"u": {"x": 1}},
        "x": 2,
    }


@pytest.mark.parametrize(
    ("where", "parent", "rest"),
    [
        (("g", "*"), {"g": [[1, 2], "a", [3]]}, {"g": ["a"]}),
        (("g", "*", "*"), {"g": [[[1, 2], [3]], {"u": [4], "v": 5}]}, {"g": [[], {"v": 5}]}),
        (("g", "0", "xs"), {"g": [{"xs": [1], "n": 2}, {"xs": [3]}]}, {"g": [{"n": 2}, {"xs": [3]}]}),
        (("g", "1"), {"g": [[1], [2], [3]]}, {"g": [[1], [3]]}),
        (("g", "1"), {"g": {"1": [2], "0": [1]}}, {"g": {"0": [1]}}),
        (("*",), {"a": [1], "b": [2], "n": 3}, {"n": 3}),
    ],
)
def test_an_element_never_gets_the_list_that_it_comes_from(where: Any, parent: Any, rest: Any) -> None:
    records = expanded(Expander(where, merge_parent=True), parent)

    assert records
    assert [{**record, "value": 0} for record in records] == [{**rest, "value": 0}] * len(records)


def test_an_element_of_a_parent_with_hundreds_of_levels_gets_what_it_is_told_to_get() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    expander = Expander(("l",), merge_parent=True, parent_fields=((("deep",), ("of",)),))

    (record,) = expanded(expander, {"deep": deep, "l": [{"x": 1}]})

    assert (record["x"], record["of"] is deep, list(record)) == (1, True, ["deep", "x", "of"])


def test_a_list_that_is_cut_short_is_fetched_whole() -> None:
    asked: list[Any] = []

    def fetch(record: Record) -> Iterable[Record]:
        asked.append(record["id"])
        return [{"x": 1}, {"x": 2}, {"x": 3}]

    expander = Expander(("l",), parent_fields=((("id",), ("of",)),), truncation=Truncation(("more",), fetch))
    parents = ({"id": 1, "more": False, "l": [{"x": 0}]}, {"id": 2, "more": True, "l": [{"x": 1}]})

    assert expanded(expander, *parents) == [{"x": 0, "of": 1}, *({"x": x, "of": 2} for x in (1, 2, 3))]
    assert asked == [2]


def test_a_list_that_is_cut_short_and_cannot_be_fetched_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    expander = Expander(("l",), truncation=Truncation(("more",)))

    with caplog.at_level(logging.WARNING, "cdk"):
        assert expanded(expander, {"more": 1, "l": [{"x": 1}]}, {"more": 1, "l": [{"x": 2}]}) == [{"x": 1}, {"x": 2}]

    assert len(caplog.messages) == 1


def test_expanding_a_record_with_a_long_list_gives_pages() -> None:
    extractor = FieldExtractor(JsonDocument(), ("data",), Expander(("l",)))
    pages = extractor.pages(response({"data": [{"l": [{"x": i} for i in range(2500)]}]}))

    assert [len(page) for page in pages] == [1000, 1000, 500]


def both(*, first_match: bool, skip_empty: bool) -> Extractor:
    parts = [FieldExtractor(JsonDocument(), (name,)) for name in ("a", "b")]
    return ExtractorGroup(parts, first_match=first_match, skip_empty=skip_empty)


@pytest.mark.parametrize(
    ("body", "union", "first", "union_kept", "first_kept"),
    [
        (
            {"a": [{"x": 1}], "b": [{"y": 1}, {}]},
            [{"x": 1}, {"y": 1}, {}],
            [{"x": 1}],
            [{"x": 1}, {"y": 1}],
            [{"x": 1}],
        ),
        ({"b": [{"y": 1}]}, [{"y": 1}], [{"y": 1}], [{"y": 1}], [{"y": 1}]),
        ({"a": [{}], "b": [{"y": 1}]}, [{}, {"y": 1}], [{}], [{"y": 1}], [{"y": 1}]),
        ({}, [], [], [], []),
    ],
)
def test_extractors_are_combined(body: Any, union: Any, first: Any, union_kept: Any, first_kept: Any) -> None:
    def read(*, first_match: bool, skip_empty: bool) -> list[Any]:
        pages = both(first_match=first_match, skip_empty=skip_empty).pages(response(body))
        return [record for page in pages for record in page]

    assert read(first_match=False, skip_empty=False) == union
    assert read(first_match=True, skip_empty=False) == first
    assert read(first_match=False, skip_empty=True) == union_kept
    assert read(first_match=True, skip_empty=True) == first_kept


@pytest.mark.parametrize("first_match", [True, False])
def test_empty_records_that_are_left_out_are_still_counted(first_match: bool) -> None:  # noqa: FBT001
    pages = both(first_match=first_match, skip_empty=True).pages(response({"a": [{}, {}], "b": []}))

    assert sum(page.raw if isinstance(page, CountedRecords) else len(page) for page in pages) == 2


def table(body: bytes, *, preserve: bool = False) -> list[dict[str, Any]]:
    return [record for page in FileExtractor(preserve_na_values=preserve).pages(response(body=body)) for record in page]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'a,b\n1,NA\n,x\n"null",""\n1.0,None\n', [("1", None), (None, "x"), (None, None), ("1.0", None)]),
        (b"\xef\xbb\xbfa,b\n\n1\x00,2\n3\n", [("1", "2"), ("3", None)]),
        (b'a,b\n"x\r\ny","say ""z"""\r\n', [("x\ny", 'say "z"')]),
        (b"", []),
        (b"a,b\n", []),
    ],
)
def test_a_file_is_rows_of_texts(body: bytes, expected: list[tuple[str, str]]) -> None:
    import gzip  # noqa: PLC0415 - here only

    rows = [dict(zip("ab", row, strict=True)) for row in expected]

    assert table(body) == rows
    assert table(gzip.compress(body)) == rows


def test_texts_that_mean_nothing_may_be_kept() -> None:
    assert table(b"a,b\n,NA\nnull,nan\n", preserve=True) == [{"a": None, "b": "NA"}, {"a": "null", "b": "nan"}]


def test_columns_have_different_names() -> None:
    assert table(b"a,,a,a.1,a\n1,2,3,4,5\n") == [{"a": "1", "Unnamed: 1": "2", "a.2": "3", "a.1": "4", "a.3": "5"}]


def test_a_file_is_read_in_pages() -> None:
    pages = FileExtractor().pages(response(body=b"a\n" + b"1\n" * 2500))

    assert [len(page) for page in pages] == [1000, 1000, 500]


ODD = b'{"data": [{"id": 1, "x": NaN}, {"id": 2, "x": -Infinity}]}'


def test_a_number_that_json_does_not_have_is_named_with_its_position() -> None:
    answer = replace(response({}), body=ODD)

    with pytest.raises(DecodeError, match=r"line 1 column 26 .*NaN or Infinity.*JsonDocument\(lenient=True\)"):
        JsonDocument().decode(answer)


def test_a_lenient_decoder_takes_numbers_that_json_does_not_have_for_null() -> None:
    answer = replace(response({}), body=ODD)

    assert JsonDocument(lenient=True).decode(answer) == {"data": [{"id": 1, "x": None}, {"id": 2, "x": None}]}
    with pytest.raises(DecodeError):
        JsonDocument(lenient=True).decode(replace(answer, body=b"<html>NaN</html>"))
