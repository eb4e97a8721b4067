import gzip
import io
import zipfile
from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.model.request_plug_points import AnyDecoder
from cdk.declarative.syntax.validation import validated
from cdk.rest import Decoder
from tests.rest.api import response


def built(manifest: dict[str, Any]) -> Decoder:
    return validated(AnyDecoder, manifest).build(BuildContext({}, Runtime(), "users"))


def archive(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("x", content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("manifest", "body", "expected"),
    [
        ({"type": "JsonDecoder"}, b'[{"a": 1}]', [{"a": 1}]),
        ({"type": "JsonDecoder"}, b'[{"a": NaN}]', [{"a": None}]),
        ({"type": "JsonItemsDecoder", "items_path": "d.x"}, b'{"d": {"x": [{"a": 1}]}}', [{"a": 1}]),
        ({"type": "JsonItemsDecoder", "items_path": "d", "encoding": "utf-16"}, '{"d": [1]}'.encode("utf-16"), [1]),
        ({"type": "JsonlDecoder"}, b'{"a": 1}\n{"a": 2}', [{"a": 1}, {"a": 2}]),
        ({"type": "JsonlDecoder", "lenient": True}, b'{"a": 1}\n<html>\n{"a": NaN}', [{"a": 1}, {"a": None}]),
        ({"type": "CsvDecoder"}, b"a,b\n1,", [{"a": "1", "b": ""}]),
        (
            {"type": "CsvDecoder", "delimiter": "\\t", "encoding": "latin-1", "set_values_to_none": [""]},
            b"a\tb\n\xe9\t",
            [{"a": "é", "b": None}],
        ),
        ({"type": "IterableDecoder"}, b"a\nb", [{"record": "a"}, {"record": "b"}]),
        ({"type": "XmlDecoder"}, b"<a><b>1</b></a>", [{"a": {"b": "1"}}]),
        ({"type": "GzipDecoder", "decoder": {"type": "CsvDecoder"}}, gzip.compress(b"a\n1"), [{"a": "1"}]),
        ({"type": "ZipfileDecoder", "decoder": {"type": "JsonDecoder"}}, archive(b'{"a": 1}'), [{"a": 1}]),
        (
            {"type": "GzipDecoder", "decoder": {"type": "ZipfileDecoder", "decoder": {"type": "JsonlDecoder"}}},
            gzip.compress(archive(b"1\n2")),
            [1, 2],
        ),
    ],
)
def test_a_decoder_reads_its_format(manifest: dict[str, Any], body: bytes, expected: list[Any]) -> None:
    decoder = built(manifest)

    assert list(decoder.items(response(body=body))) == expected


def test_a_delimiter_that_is_none_is_named_with_its_place() -> None:
    with pytest.raises(ManifestError, match=r"users: CsvDecoder.delimiter: found the delimiter '\|\|'"):
        built({"type": "CsvDecoder", "delimiter": "||"})


@pytest.mark.parametrize("name", ["CsvDecoder", "JsonItemsDecoder"])
def test_an_encoding_that_is_none_is_an_error(name: str) -> None:
    with pytest.raises(ManifestError, match="there is no encoding 'utf-99'"):
        built({"type": name, "items_path": "d", "encoding": "utf-99"})


def test_json_items_need_a_path() -> None:
    with pytest.raises(ManifestError, match="items_path"):
        built({"type": "JsonItemsDecoder", "items_path": ""})


def test_values_that_are_left_out_are_the_usual_ones() -> None:
    assert list(
        built({"type": "CsvDecoder", "encoding": None, "delimiter": None}).items(response(body=b"a,b\n1,2"))
    ) == [{"a": "1", "b": "2"}]
