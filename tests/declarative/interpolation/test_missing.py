import pytest

from cdk.declarative.interpolation.missing import missing
from cdk.rest import Headers

SCOPE = {
    "config": {"start_date": "2024", "credentials": {"token": "t0ken"}, "items": 1},
    "response": {"ann@example.com": 1, "meta": {"next": None}, "data": [1]},
    "headers": Headers({"Link": "x"}),
    "stream_slice": {"shop": 1},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("config", "start_dat"), "`config.start_dat`, which is missing; did you mean 'start_date'?"),
        (("config", "credentials", "x", "y"), "`config.credentials.x`, which is missing; there is 'token'"),
        (("response", "next"), "`response.next`, which is missing; there is 'meta', 'data'"),
        (("headers", "next"), "`headers.next`, which is missing; there is 'link'"),
        (("stream_slice", "x"), "`stream_slice.x`, which is missing"),
        (("config", "start_date"), ""),
        (("config", "start_date", "x"), ""),
        (("config", "values"), ""),
        (("response", "data", "x"), ""),
        (("headers", "LINK"), ""),
        (("unknown", "x"), ""),
    ],
)
def test_a_missing_path_is_named_with_the_fields_that_are_there(path: tuple[str, ...], expected: str) -> None:
    assert missing([("config",), path], SCOPE) == expected


def test_the_path_that_failed_is_named() -> None:
    paths = [("config", "a"), ("response", "b")]

    assert missing(paths, {"config": {}, "response": {}}, "b") == "`response.b`, which is missing"


def test_of_many_fields_a_few_are_named() -> None:
    scope = {"config": {f"field_{number}": number for number in range(8)}}

    found = missing([("config", "x")], scope)

    assert found.endswith("; there is 'field_0', 'field_1', 'field_2', 'field_3', 'field_4' and 3 more")
