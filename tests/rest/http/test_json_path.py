from typing import Any

import pytest

from cdk import DecodeError
from cdk.rest import path
from cdk.rest.http.json_path import records_at

BODY: Any = {"data": {"items": [{"id": 1, "tags": ["a"]}, {"id": 2, "tags": ["b", "c"]}]}, "n": None}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), BODY),
        (("n",), None),
        (("none",), None),
        (("none", "deeper"), None),
        (("data", "items"), BODY["data"]["items"]),
        (("data", "items", "1", "id"), 2),
        (("data", "items", "7", "id"), None),
        (("data", "items", "*", "id"), [1, 2]),
        (("data", "items", "*", "tags"), ["a", "b", "c"]),
        (("none", "*", "id"), []),
        (("data", "*", "*", "tags", "*"), ["a", "b", "c"]),
    ],
)
def test_a_path_leads_to_what_lies_there(names: tuple[str, ...], expected: Any) -> None:
    assert path(*names)(BODY) == expected


def test_a_list_of_records_is_taken_as_it_is() -> None:
    records = [{"id": 1}]

    assert records_at(records, (), "") is records


def test_one_object_is_one_record_and_nothing_is_none() -> None:
    assert records_at({"id": 1}, (), "") == ({"id": 1},)
    assert records_at(None, (), "") == ()


@pytest.mark.parametrize(("found", "kind"), [("text", "a string"), ([1], "a list that begins with a number")])
def test_what_is_no_record_is_an_error_that_names_the_place(found: Any, kind: str) -> None:
    with pytest.raises(DecodeError, match=rf"GET x: found {kind} at data > items"):
        records_at(found, ("data", "items"), "GET x")
