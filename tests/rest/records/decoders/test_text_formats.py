import codecs
import csv
import gzip
import io
import json
import logging
from collections.abc import Generator
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk import ConfigError, DecodeError, TransientError
from cdk.base.records.exact_json import exact_json
from cdk.base.records.plain_values import json_of
from cdk.base.values import Json
from cdk.rest import CsvRows, Decoder, GzipFile, Headers, JsonDocument, JsonItems, Jsonl, Request, Response, TextLines
from cdk.rest.errors.failed_body import OtherFormat
from cdk.rest.http.streamed_response import StreamedResponse
from cdk.rest.records.csv_file import FileExtractor
from cdk.rest.records.decoders import text_formats
from tests.rest.api import response


def read(decoder: Decoder, body: bytes) -> list[Any]:
    return list(decoder.items(response(body=body)))


def endless(piece: bytes, count: int) -> Response:
    """A body in many pieces that counts how many were taken."""

    def pieces() -> Generator[bytes, None, None]:
        for _ in range(count):
            yield piece

    return StreamedResponse(200, Headers(), pieces(), "u", Request("GET", "https://api.test/big"))


@pytest.mark.parametrize(
    ("body", "expected"), [(b'[1, "x", {"a": 1}]', [1, "x", {"a": 1}]), (b'{"a": 1}', [{"a": 1}]), (b"[]", [])]
)
def test_json_gives_the_elements_of_a_list_and_anything_else_as_one(body: bytes, expected: list[Any]) -> None:
    assert read(JsonDocument(), body) == expected


@pytest.mark.parametrize(
    "body",
    [b"", b"no", b'{"a": NaN}', b"[Infinity]", b'{"a": "\xff"}', b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000],
)
def test_what_is_no_json_is_an_error(body: bytes) -> None:
    with pytest.raises(DecodeError, match="not JSON"):
        read(JsonDocument(), body)


@pytest.mark.parametrize("bad", [b"<html>secret", b'{"a":', b'"\xff"', b'{"n":NaN}'])
def test_a_line_that_is_no_json_is_an_error_with_its_number(bad: bytes) -> None:
    items = Jsonl().items(response(body=b'{"a":1}\r\n\n' + bad + b'\n{"b":2}'))

    assert next(items) == {"a": 1}
    with pytest.raises(DecodeError, match=r"line 3 is not JSON .*expected a JSON value on each line.*lenient") as error:
        next(items)
    assert "secret" not in str(error.value)


def test_lenient_json_lines_skip_what_is_no_json_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "cdk"):
        found = read(Jsonl(lenient=True), b'{"a":1}\r\n\nsecret\n[1]\n"\xff"\n{"n":NaN}\n3\n{"b":2}')

    assert found == [{"a": 1}, [1], {"n": None}, 3, {"b": 2}]
    assert [message.partition(": ")[2].partition(" JSON")[0] for message in caplog.messages] == [
        "line 3 is not",
        "line 5 is not",
    ]
    assert "secret" not in caplog.text


def test_a_body_that_is_no_json_lines_at_all_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "cdk"):
        assert read(Jsonl(lenient=True), b"<p>\n" * 5000) == []

    assert len(caplog.messages) == 11
    assert "5000 of 5000 lines are not JSON" in caplog.messages[-1]


def test_lines_may_lie_across_pieces() -> None:
    def pieces() -> Generator[bytes, None, None]:
        for i in range(0, len(body), 3):
            yield body[i : i + 3]

    body = b'{"a": 1}\n{"a": 22222}\n'
    streamed = StreamedResponse(200, Headers(), pieces(), "u", Request("GET", "https://api.test/x"))

    assert list(Jsonl().items(streamed)) == [{"a": 1}, {"a": 22222}]


@pytest.mark.parametrize("decoder", [Jsonl(), CsvRows(), TextLines()])
def test_a_line_without_an_end_is_an_error_before_memory_is_full(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_formats, "MAX_LINE", 2**20)

    with pytest.raises(DecodeError, match="a line of more than 1 MiB"):
        list(decoder.items(endless(b"x" * 2**16, 10_000_000)))


def test_text_lines_are_records() -> None:
    assert read(TextLines(), b"one\r\ntwo\n\nthree\rfour") == [
        {"record": "one"},
        {"record": "two"},
        {"record": ""},
        {"record": "three"},
        {"record": "four"},
    ]
    assert read(TextLines(), b"") == []


@pytest.mark.parametrize("decoder", [CsvRows(), TextLines()])
def test_bytes_of_another_encoding_are_an_error(decoder: Decoder) -> None:
    with pytest.raises(DecodeError, match=r"not utf-8 \(byte 0xff\)"):
        read(decoder, b"a,b\n\xff,1\n")


@pytest.mark.parametrize(
    ("decoder", "body", "expected"),
    [
        (CsvRows(), b"a,b\r\n1,2\r\n\r\n3\r\n", [{"a": "1", "b": "2"}, {"a": "3", "b": None}]),
        (CsvRows(delimiter="\\t"), b'a\tb\n1\t"x\ty"\n', [{"a": "1", "b": "x\ty"}]),
        (CsvRows(delimiter="\t"), b"a\tb\n1\t2\n", [{"a": "1", "b": "2"}]),
        (CsvRows(set_values_to_none=frozenset({"", "null"})), b"a,b\n,null\n1,2\n", [
            {"a": None, "b": None}, {"a": "1", "b": "2"},
        ]),
        (CsvRows(encoding="latin-1"), b"a\n\xe9", [{"a": "é"}]),
        (CsvRows(), b"\xef\xbb\xbfa,b\n1,\xef\xbb\xbf\n", [{"a": "1", "b": "\ufeff"}]),
        (CsvRows(encoding="UTF8"), b"\xef\xbb\xbfa\n1\n", [{"a": "1"}]),
        (CsvRows(), b"", []),
        (CsvRows(), b"a,b\n", []),
        (CsvRows(), b"a,a\n1,2", [{"a": "2"}]),
        (CsvRows(), b'a,b\n"x\r\ny",2', [{"a": "x\ny", "b": "2"}]),
        (CsvRows(), b"a,b\n1,2,,\n", [{"a": "1", "b": "2"}]),
        (CsvRows(), b"a\n" + b"x" * 200_000, [{"a": "x" * 200_000}]),
    ],
)  # fmt: skip
def test_csv_rows_are_texts_under_the_names_of_the_first(
    decoder: Decoder, body: bytes, expected: list[dict[str, str | None]]
) -> None:
    assert read(decoder, body) == expected


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
).filter(lambda value: isinstance(value, list | dict))


def labelled(body: bytes, kind: str = "") -> Response:
    return response(body=body, headers={"Content-Type": kind} if kind else None)


def in_lines(body: bytes) -> Response:
    """A body of which each line is a piece."""
    pieces = (piece for piece in body.splitlines(keepends=True))
    return StreamedResponse(200, Headers(), pieces, "u", Request("GET", "https://api.test/x"))


@given(DOCUMENTS, st.sampled_from([None, 2]), st.sampled_from(["", "\ufeff", " \r\n\n"]))
def test_a_json_document_is_no_table(document: Json, indent: int | None, before: str) -> None:
    body = (before + json.dumps(document, indent=indent)).encode()

    for answer in (labelled(body), in_lines(body), labelled(gzip.compress(body))):
        with pytest.raises((DecodeError, TransientError), match=r"answered 200.*expected CSV|not CSV"):
            list(GzipFile(CsvRows()).items(answer))


@given(
    st.lists(st.text('<>{}[]":,;a1 ', min_size=1), min_size=1, max_size=4, unique=True),
    st.integers(0, 3),
    st.sampled_from(",;\t|"),
    st.sampled_from(["", "text/csv", "application/octet-stream"]),
)
def test_a_table_whose_names_are_quoted_is_one_whatever_they_are(
    names: list[str], count: int, delimiter: str, kind: str
) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([names, *[names] * count])

    rows = list(CsvRows(delimiter=delimiter).items(labelled(text.getvalue().encode(), kind)))

    assert rows == [{name: name for name in names}] * count


@pytest.mark.parametrize(
    ("body", "kind", "begin"),
    [
        (b"<html><body>Down for maintenance</body></html>", "text/html", "<html>"),
        (b"\xef\xbb\xbf \r\n<!DOCTYPE html>\n<p>Sorry, we are down</p>\n", "", "<!DOCTYPE"),
        (b'<?xml version="1.0"?><Error><Code>SlowDown</Code></Error>', "application/xml", "<?xml"),
        (b"<h1>Sorry, back soon</h1>\n", "text/csv", "<h1>"),
        (b'[{"id": 1}, {"id": 2}]', "text/csv", "["),
        (b'[{"text": "' + b"x" * 2**19 + b'"}]', "text/csv", "["),
        (b"[" + b'{"id": 12345678, "b": null},\n' * 2**14 + b"{}]", "text/csv", "["),
        (b"[" * 100_000, "", "[["),
        (b"null", "application/json", "null"),
        (b'"rate limited"', "application/json; charset=utf-8", "rate limited"),
        (b"Service unavailable", "text/html", "Service"),
        (b"Sorry, we are down", "text/html", "Sorry"),
        (b"Service unavailable\nTry again later\n", "Text/HTML; charset=utf-8", "Service"),
    ],
)  # fmt: skip
def test_a_body_of_another_format_is_no_table(body: bytes, kind: str, begin: str) -> None:
    answer = labelled(body, kind)

    for read_all in (CsvRows().items, FileExtractor().pages):
        with pytest.raises(OtherFormat, match=r"answered 200 with a body that is not CSV .*Try again later") as error:
            list(read_all(answer))
        assert (kind or "no content type") in str(error.value)
        assert f"begins '{begin}" in str(error.value)


def test_an_error_in_the_place_of_a_table_says_what_the_api_says() -> None:
    answer = labelled(b'{"error": {"message": "rate limit exceeded"}}')

    with pytest.raises(TransientError, match="answered 200: rate limit exceeded; found an error, expected CSV"):
        list(CsvRows().items(answer))


@pytest.mark.parametrize(
    ("body", "kind", "rows"),
    [
        (b"{a},b\n1,2\n", "", [{"{a}": "1", "b": "2"}]),
        (b"[id],[name]\n1,2\n", "", [{"[id]": "1", "[name]": "2"}]),
        (b"[1],[2]\n", "", []),
        (b"<TICKER>,<DATE>\n1,2\n", "", [{"<TICKER>": "1", "<DATE>": "2"}]),
        (b"[id],b\n" + b"1,\n" * 2**17, "", [{"[id]": "1", "b": ""}] * 2**17),
        (b"a,b\n1,2\n", "text/html; charset=utf-8", [{"a": "1", "b": "2"}]),
        (b"a,b\n1,2\n", "application/json", [{"a": "1", "b": "2"}]),
        (b"", "text/html", []),
        (b"\r\n\r\n", "application/json", []),
        (b"a\n", "application/jsonl", []),
    ],
)
def test_a_table_is_one_whatever_its_label_and_its_brackets(body: bytes, kind: str, rows: list[dict[str, str]]) -> None:
    assert list(CsvRows().items(labelled(body, kind))) == rows


def test_a_row_with_more_values_than_names_is_an_error() -> None:
    with pytest.raises(DecodeError, match="line 3 of the body has 3 values, the first row has 2 names"):
        read(CsvRows(), b"a,b\n1,2\n1,2,3\n")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b'id,txt\n1,"a\n2,b\n3,c\n', 2),
        (b'id,txt\n1,"a"\n\n2,"b\n\nc"\n3,"', 7),
        (b'id,txt\n1,"a ""quoted""', 2),
        (b'id,"txt', 1),
    ],
)
def test_a_body_that_ends_inside_a_quoted_value_is_an_error(body: bytes, line: int) -> None:
    with pytest.raises(DecodeError, match=f"ends inside a quoted value of the row that starts at line {line};"):
        read(CsvRows(), body)


@pytest.mark.parametrize(
    ("body", "headers", "error"),
    [
        (b"id,on,at\n1,a,b\n2,c", {}, "the last line of the body has 2 values and no line end, all before it have 3"),
        (b"id,on,at\n1,a,b\n2,c\n", {}, ""),
        (b"id,on,at\n1,a,b\n2,c,d", {}, ""),
        # A source that leaves out values does so in its last row, too; and one row says nothing of how it does.
        (b"id,on,at\n1,a\n2,c", {}, ""),
        (b"id,on,at\n1,a", {}, ""),
        (b"id,on,at\n1,a,b\n2,c", {"Content-Length": "21"}, ""),
    ],
)
def test_a_row_that_ends_with_a_body_of_unknown_length_is_cut(body: bytes, headers: dict[str, str], error: str) -> None:
    made = Response(200, Headers(headers), body, "", Request("GET", "https://api.test/items"))

    with pytest.raises(DecodeError, match=error) if error else nullcontext():
        assert len([*CsvRows().items(made)]) == body.strip().count(b"\n")


def test_columns_of_one_name_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    decoder = CsvRows()

    with caplog.at_level(logging.WARNING, "cdk"):
        assert read(decoder, b"id,amount,amount\n1,10,99\n") == [{"id": "1", "amount": "99"}]
        assert read(decoder, b"id,amount,amount\n2,20,98\n") == [{"id": "2", "amount": "98"}]

    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "the first row of the body names several columns 'amount'; only the last of each is read"
    ]


@pytest.mark.parametrize(
    ("delimiter", "body", "other"),
    [
        (",", b"id;amount;zip\n1;2.5;01234\n", ";"),
        (",", b"id\tname|short\tzip\n", "\t"),
        (",", b"id|amount\n", "|"),
        (";", b"id,amount\n1,2\n", ","),
        (",", b"id,a;b\n1,2\n", ""),
        (",", b"id\n1;2\n", ""),
        (",", b'"id,amount"\n1\n', ""),
        (",", b"", ""),
    ],
)
def test_another_delimiter_than_the_decoders_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, delimiter: str, body: bytes, other: str
) -> None:
    decoder = CsvRows(delimiter=delimiter)

    with caplog.at_level(logging.WARNING, "cdk"):
        read(decoder, body)
        read(decoder, body)

    assert len(caplog.messages) == bool(other)
    assert all(f"if {other!r} is between them, set it as the `delimiter`" in message for message in caplog.messages)


@pytest.mark.parametrize("delimiter", ["||", "", "\\q\\q"])
def test_a_delimiter_is_one_character(delimiter: str) -> None:
    with pytest.raises(ConfigError, match="expected one character"):
        CsvRows(delimiter=delimiter)


@pytest.mark.parametrize("decoder", [CsvRows(encoding="utf-99"), JsonItems("", encoding="utf-99")])
def test_an_encoding_that_is_none_is_an_error(decoder: Decoder) -> None:
    with pytest.raises(ConfigError, match="there is no encoding 'utf-99'"):
        read(decoder, b"a\n1")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("d.items", [{"id": 1, "f": 1.5}, {"id": 2}]),
        ("k", [1, 2]),
        ("d", []),
        ("none", []),
        ("n.item.m", [{"x": 1}, {"x": 2}]),
    ],
)
def test_json_items_are_the_elements_of_an_inner_list(where: str, expected: list[Any]) -> None:
    body = {"d": {"items": [{"id": 1, "f": 1.5}, {"id": 2}]}, "k": [1, 2], "n": [{"m": [{"x": 1}]}, {"m": [{"x": 2}]}]}

    assert read(JsonItems(where), json.dumps(body).encode()) == expected
    assert read(JsonItems(where, "utf-16"), json.dumps(body).encode("utf-16")) == expected


HALF = rb'{"d":[{"id":"ok \ud83d"}]}'


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8], ids=["no mark", "mark"])
def test_bodies_may_begin_with_a_byte_order_mark_and_hold_half_a_character(mark: bytes) -> None:
    record = {"id": "ok \ud83d"}

    assert read(JsonDocument(), mark + HALF) == [{"d": [record]}]
    assert read(JsonDocument(lenient=True), mark + HALF) == [{"d": [record]}]
    assert read(Jsonl(), mark + b"\n".join([HALF] * 2)) == [{"d": [record]}] * 2


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_json_items_may_begin_with_a_byte_order_mark(piece: int) -> None:
    body = codecs.BOM_UTF8 + b'{"d":[1,2]}'

    def pieces() -> Generator[bytes, None, None]:
        for at in range(0, len(body), piece):
            yield body[at : at + piece]

    streamed = StreamedResponse(200, Headers(), pieces(), "u", Request("GET", "https://api.test/x"))

    assert list(JsonItems("d").items(streamed)) == [1, 2]


def test_json_items_have_every_digit_of_their_numbers() -> None:
    text = b'{"id":18446744073709551616,"f":0.1,"n":[-0.12345678901234567891,{"e":1e400,"x":1.5}],"t":"1.5"}'

    (item,) = read(JsonItems("d"), b'{"d":[' + text + b"]}")

    assert item == exact_json(text)
    assert json_of(item) == text.decode().replace("1e400", "1E+400")


def test_json_items_arrive_before_the_body_ends() -> None:
    def pieces() -> Generator[bytes, None, None]:
        yield b'{"data": ['
        while True:
            yield b'{"id": 1},' * 1000

    streamed = StreamedResponse(200, Headers(), pieces(), "u", Request("GET", "https://api.test/x"))
    items = JsonItems("data").items(streamed)

    assert [next(items) for _ in range(50_000)][-1] == {"id": 1}


@pytest.mark.parametrize(
    "body",
    [b"", b'{"d": [{"id": 1}, {"id"', b'{"d": [{"f": NaN}]}', b'{"d": ["\xff"]}', b'{"d": [1e%s]}' % (b"1" * 50)],
)
def test_what_is_no_json_is_an_error_of_json_items(body: bytes) -> None:
    with pytest.raises(DecodeError, match="not JSON, or is truncated"):
        read(JsonItems("d"), body)


@pytest.mark.parametrize("at", [1, 2000, 4095, 4096, 4097])
def test_a_number_that_the_parser_would_crash_at_is_an_error_of_json_items(at: int) -> None:
    def items(digits: int) -> list[Any]:
        return read(JsonItems("d"), b'{"d": ["%s", %s]}' % (b"1" * at, b"1" * digits))

    assert items(4300) == ["1" * at, int("1" * 4300)]
    with pytest.raises(DecodeError, match="a number of the body has more than 4300 digits"):
        items(4301)


@pytest.mark.parametrize("inner", [b"[", b'{"a":'])
def test_json_items_that_are_nested_without_end_are_an_error(inner: bytes) -> None:
    with pytest.raises(DecodeError, match="nested deeper than 500"):
        list(JsonItems("d").items(endless(b'{"d": [' + inner * 1000, 10_000_000)))


@pytest.mark.parametrize("piece", [7, 4095, 4096, 4097, 100_000])
def test_brackets_in_texts_are_not_nesting(piece: int) -> None:
    items = ['[{"[' * 2000, '"' + chr(92) * 4095 + "[[" * 1000, {"[" * 600: "{" * 600}, chr(92), ["]"], "[" * 900]
    body = json.dumps({"d": items * 3}).encode()

    def pieces() -> Generator[bytes, None, None]:
        for i in range(0, len(body), piece):
            yield body[i : i + piece]

    streamed = StreamedResponse(200, Headers(), pieces(), "u", Request("GET", "https://api.test/x"))

    assert list(JsonItems("d").items(streamed)) == items * 3


@pytest.mark.parametrize(
    ("decoder", "head"),
    [(Jsonl(), b"1\n"), (CsvRows(), b"a,b\n"), (TextLines(), b""), (JsonItems("d"), b'{"d": [1, 2, 3')],
)
def test_leaving_a_body_half_read_lets_go_of_it(decoder: Decoder, head: bytes) -> None:
    closed = []

    def pieces() -> Generator[bytes, None, None]:
        try:
            yield head
            yield b"\n,4" * 2**18
        finally:
            closed.append(True)

    items = decoder.items(StreamedResponse(200, Headers(), pieces(), "u", Request("GET", "https://api.test/x")))
    next(items)
    items.close()  # type: ignore[attr-defined] # a generator

    assert closed == [True]
