import logging

import pytest

from cdk.declarative.components.records.csv_extractor import ResponseToFileExtractor
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.rest import JsonDocument
from tests.rest.api import response


def test_a_file_is_rows_whatever_the_decoder() -> None:
    ctx = BuildContext({}, Runtime())
    answer = response(body=b"a,b\n1,NA\n")

    for preserve, expected in ((False, None), (True, "NA")):
        extractor = ResponseToFileExtractor(preserve_na_values=preserve).build(ctx, JsonDocument())
        assert list(extractor.pages(answer)) == [[{"a": "1", "b": expected}]]


def test_another_delimiter_than_a_comma_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    extractor = ResponseToFileExtractor().build(BuildContext({}, Runtime()), JsonDocument())

    with caplog.at_level(logging.WARNING, "cdk"):
        for body in (b"a;b\n1;2\n", b"a;b\n3;4\n", b"a,b\n3,4\n"):
            list(extractor.pages(response(body=body)))

    assert len(caplog.messages) == 1
    assert "if ';' is between them, read the file with a CSV decoder" in caplog.messages[0]
