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
