import gzip
import io
import tracemalloc
import zipfile
import zlib
from collections.abc import Generator
from typing import Any

import pytest

from cdk import DecodeError
from cdk.rest import (
    CsvRows,
    Decoder,
    GzipFile,
    Headers,
    JsonDocument,
    JsonItems,
    Jsonl,
    Request,
    TextLines,
    XmlDocument,
    ZipArchive,
)
from cdk.rest.http.streamed_response import StreamedResponse
from tests.rest.api import response

MIB = 2**20


def read(decoder: Decoder, body: bytes) -> list[Any]:
    return list(decoder.items(response(body=body)))


def bomb(size: int) -> bytes:
    """`size` MiB of zeros, and its gzip file."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(bytes(MIB)) for _ in range(size)) + packer.flush()


def archive(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize(
    "body",
    [
        gzip.compress(b'{"a":1}\n{"a":2}\n'),
        b'{"a":1}\n{"a":2}\n',
        gzip.compress(b'{"a":1}\n') + gzip.compress(b'{"a":2}\n'),
        gzip.compress(b'{"a":1}\n') + bytes(10) + gzip.compress(b'{"a":2}\n') + bytes(10),
    ],
)
def test_gzip_is_unpacked_where_it_is_gzip(body: bytes) -> None:
    def one_by_one() -> Generator[bytes, None, None]:
        for i in range(len(body)):
            yield body[i : i + 1]

    streamed = StreamedResponse(200, Headers(), one_by_one(), "u", Request("GET", "https://api.test/x"))
    expected = [{"a": 1}, {"a": 2}]

    assert read(GzipFile(Jsonl()), body) == expected
    assert list(GzipFile(Jsonl()).items(streamed)) == expected
    assert GzipFile(Jsonl()).decode(response(body=body)) == expected


LINES = [CsvRows(), CsvRows(encoding="latin-1"), CsvRows(encoding="cp1252"), Jsonl(), Jsonl(lenient=True), TextLines()]


@pytest.mark.parametrize("decoder", [*LINES, JsonItems("a")], ids=repr)
@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b'{"a": [1]}\n', bytes(range(256)) * 300])
def test_a_decoder_of_text_names_what_unpacks_a_compressed_body(decoder: Decoder, content: bytes) -> None:
    with pytest.raises(DecodeError, match=r"the body is gzip, expected text; `GzipFile\(\.\.\.\)` unpacks it"):
        read(decoder, gzip.compress(content))
    with pytest.raises(DecodeError, match=r"the body is a zip archive, .* in a manifest a `ZipfileDecoder`"):
        read(decoder, archive({"a.csv": content}))


def test_gzip_of_more_than_a_piece_is_whole() -> None:
    rows = b"a,b\n" + b"1,2\n" * 500_000

    assert sum(1 for _ in GzipFile(CsvRows()).items(response(body=gzip.compress(rows)))) == 500_000


def test_an_empty_body_is_empty_and_not_gzip() -> None:
    assert read(GzipFile(Jsonl()), b"") == []


@pytest.mark.parametrize("inner", [JsonDocument(), Jsonl(), CsvRows()])
def test_gzip_that_is_cut_off_is_an_error(inner: Decoder) -> None:
    with pytest.raises(DecodeError, match="gzip body is truncated"):
        read(GzipFile(inner), gzip.compress(b'{"a":1}\n' * 100)[:-5])


@pytest.mark.parametrize("body", [b"\x1f\x8bnothing of the kind", gzip.compress(b'{"a":1}') + b"more"])
def test_what_only_begins_like_gzip_is_an_error(body: bytes) -> None:
    with pytest.raises(DecodeError, match="begins like gzip but is not gzip"):
        read(GzipFile(JsonDocument()), body)


def test_a_gzip_bomb_is_an_error_long_before_memory_is_full() -> None:
    body = bomb(120)
    tracemalloc.start()
    with pytest.raises(DecodeError, match="more than 200 times larger"):
        read(GzipFile(JsonDocument()), body)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert used < 150 * MIB


def test_every_file_of_an_archive_is_read_in_order() -> None:
    body = archive({"x.json": b'[{"a":1},{"a":2}]', "d/": b"", "d/y.json": b'{"b":1}'})

    assert read(ZipArchive(JsonDocument()), body) == [{"a": 1}, {"a": 2}, {"b": 1}]
    assert ZipArchive(JsonDocument()).decode(response(body=body)) == [{"a": 1}, {"a": 2}, {"b": 1}]


def test_archives_of_tables_and_of_gzip_files_are_read() -> None:
    assert read(ZipArchive(CsvRows()), archive({"1": b"a\n1", "2": b"a\n2"})) == [{"a": "1"}, {"a": "2"}]
    assert read(ZipArchive(GzipFile(JsonDocument())), archive({"1": gzip.compress(b"[1]")})) == [1]


@pytest.mark.parametrize("body", [b"", b"nothing", archive({"x": b"{}"})[:-30]])
def test_what_is_no_archive_is_an_error(body: bytes) -> None:
    with pytest.raises(DecodeError, match="not a readable zip archive"):
        read(ZipArchive(JsonDocument()), body)


def test_a_file_of_an_archive_that_is_spoilt_is_an_error() -> None:
    body = bytearray(archive({"x.json": b'{"a": 1}'}, zipfile.ZIP_STORED))
    body[body.index(b'"a"') + 1] = ord("b")

    with pytest.raises(DecodeError, match="Bad CRC"):
        read(ZipArchive(Jsonl()), bytes(body))


def test_an_archive_that_is_encrypted_is_an_error() -> None:
    body = archive({"x": b"{}"}).replace(b"PK\x03\x04\x14\x00\x00", b"PK\x03\x04\x14\x00\x01").replace(
        b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"
    )  # fmt: skip

    with pytest.raises(DecodeError, match="encrypted"):
        read(ZipArchive(JsonDocument()), body)


def test_a_file_of_an_archive_in_another_format_is_an_error() -> None:
    with pytest.raises(DecodeError, match="not JSON"):
        read(ZipArchive(JsonDocument()), archive({"x.json": b"no"}))


def test_a_zip_bomb_is_an_error_also_when_it_is_many_files() -> None:
    body = archive({str(i): b"[%s1]" % (b" " * 20 * MIB) for i in range(4)})

    with pytest.raises(DecodeError, match="more than 200 times larger"):
        read(ZipArchive(JsonDocument()), body)


@pytest.mark.parametrize("decoder", [GzipFile, ZipArchive])
def test_what_packs_streams_if_what_it_holds_does(decoder: type[GzipFile | ZipArchive]) -> None:
    assert decoder(CsvRows()).streams
    assert not decoder(JsonDocument()).streams


def test_xml_is_nested_objects() -> None:
    body = b'<?xml version="1.0"?><a x="1"><b>t</b><b y="2"> u </b><c/></a>'

    assert read(XmlDocument(), body) == [{"a": {"@x": "1", "b": ["t", {"@y": "2", "#text": "u"}], "c": None}}]


def test_xml_is_in_the_encoding_it_names_and_keeps_prefixes() -> None:
    body = '<?xml version="1.0" encoding="iso-8859-1"?><n:a xmlns:n="u"><n:b>é</n:b></n:a>'.encode("latin-1")

    assert XmlDocument().decode(response(body=body)) == {"n:a": {"@xmlns:n": "u", "n:b": "é"}}


LAUGHS = b"<!DOCTYPE l [<!ENTITY a0 'lol'>%s]><l>&a9;</l>" % b"".join(
    b"<!ENTITY a%d '%s'>" % (i, b"&a%d;" % (i - 1) * 10) for i in range(1, 10)
)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no element"),
        (b"no", "syntax error"),
        (b"<a><b></a>", "mismatched"),
        (b"<a>\xff</a>", "not well-formed"),
        (LAUGHS, "entities"),
        (b"<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>", "entities"),
        (b"<?xml version='1.0' encoding='utf-99'?><a/>", "unknown encoding"),
        (b"<a>" * 100_000 + b"</a>" * 100_000, "nested deeper"),
    ],
)
def test_xml_that_cannot_be_read_is_an_error(body: bytes, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        read(XmlDocument(), body)
