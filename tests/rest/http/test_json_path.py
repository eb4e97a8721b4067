from typing import Any

import pytest

from cdk import DecodeError
from cdk.rest import path
from cdk.rest.http.json_path import absence, records_at

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


@pytest.mark.parametrize(
    ("where", "hint"),
    [
        (("meta.next",), "(a path has a name for each step: 'meta', 'next')"),
        (("meta", "nxt"), "(is it 'next'?)"),
        (("other.next",), "whose fields are 'meta'"),
        (("meta", "next"), ""),
    ],
)
def test_where_a_path_ends_is_said_with_what_may_be_meant(where: tuple[str, ...], hint: str) -> None:
    why = absence({"meta": {"next": "b"}}, where)

    assert why.endswith(hint)
    assert bool(why) == bool(hint)


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (("list", "0", "b"), "no 'b' in element 0 of 'list', whose fields are 'a'"),
        (("list", "*", "b"), "no 'b' in an element of 'list', whose fields are 'a'"),
        (("list", "*", "c"), ""),
        (("*", "*", "b"), "no 'b' in an element of an element of the body, whose fields are 'a'"),
    ],
)
def test_a_path_that_ends_in_all_elements_of_a_list_ends(where: tuple[str, ...], why: str) -> None:
    assert absence({"list": [{"a": 1}, {"a": 2, "c": 3}]}, where) == why
