"""Which list of a body is the one of its records, in the shapes that APIs have."""

from typing import Any

import pytest

from cdk.authoring.drafts.names import record_lists

ROW, LINK = {"id": 1}, {"rel": "self", "href": "/"}


@pytest.mark.parametrize(
    ("body", "path", "where"),
    [
        ([ROW], "/orders", ()),
        ({"orders": [ROW]}, "/v1/orders", ("orders",)),
        # As the path is called, though another is longer: OGC API, Datasette.
        ({"links": [LINK] * 3, "collections": [ROW]}, "/collections", ("collections",)),
        ({"rows": [ROW], "suggested_facets": [ROW] * 3, "columns": ["a"]}, "/some/orders.json", ("rows",)),
        ({"extra": [ROW] * 9, "order": [ROW]}, "/orders", ("order",)),
        # Of a usual name, at whatever depth.
        ({"response": {"docs": [ROW], "facets": [ROW] * 5}, "others": [ROW] * 9}, "/select", ("response", "docs")),
        ({"meta": {"links": [LINK]}, "data": [ROW]}, "/things", ("data",)),
        ({"links": [ROW], "data": [ROW] * 2}, "/links", ("links",)),
        ({"_embedded": {"parts": [ROW]}}, "/things", ("_embedded", "parts")),
        ({"parts": [ROW], "links": [LINK] * 3, "page_links": [LINK] * 4}, "/things", ("parts",)),
        # The longest of those that nothing tells apart.
        ({"a": [ROW], "b": [ROW] * 2}, "/things", ("b",)),
        # Empty, or not of objects, yet called as records are.
        ({"rows": [], "facets": [ROW]}, "/orders", ("rows",)),
        ({"rows": [[1, 2]], "facets": [ROW]}, "/orders", ("rows",)),
    ],
    ids=str,
)
def test_the_likeliest_list_is_the_first(body: Any, path: str, where: tuple[str, ...]) -> None:
    assert next(iter(record_lists(body, path))) == where


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"type": "Feature", "id": 7, "links": [LINK], "geometry": {"coordinates": [1.5, 2]}}, "/towns/items/7"),
        ({"id": "a b", "items": [ROW]}, "/orders/a%20b"),
        ({"type": "Feature", "links": [LINK]}, "/towns/first"),
        ({"name": "ann", "tags": ["a"]}, "/me"),
        ({}, "/"),
    ],
    ids=str,
)
def test_an_object_may_have_no_list_of_records(body: Any, path: str) -> None:
    assert record_lists(body, path) == {}
