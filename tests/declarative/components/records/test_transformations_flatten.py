"""The expected results are those of Airbyte's components."""

from copy import deepcopy
from typing import Any

import pytest

from cdk.base.errors import ManifestError
from cdk.base.values import Json
from cdk.declarative.components.records.transformations_flatten import DpathFlattenFields, FlattenFields
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.model.request_plug_points import AnyTransformation
from cdk.declarative.syntax.validation import validated


def changed(component: AnyTransformation, record: dict[str, Json]) -> dict[str, Json]:
    record = deepcopy(record)
    component.build(BuildContext({"p": "d"}, Runtime()))([record], {})
    return record


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"a": 1, "b": {"c": 2, "d": {"e": 3}}}, {"e": 3, "c": 2, "a": 1}),
        ({"a": 1, "b": {"a": 2}}, {"a": 1}),
        ({"b": {"a": 2}, "a": 1}, {"a": 1, "b.a": 2}),
        ({"a": [1, 2]}, {"a.1": 2, "a.0": 1}),
        ({"a": [{"b": 1}, {"c": [3, [4]]}]}, {"a.1.c.1.0": 4, "a.1.c.0": 3, "a.0.b": 1}),
        ({"a": {"b": [{"c": 1}]}}, {"b.0.c": 1}),
        ({"a": {}, "b": [], "c": {"d": {}}}, {}),
        ({"x": {"q": {"a": 1}}, "y": {"q": {"a": 2}}}, {"a": 2, "q.a": 1}),
        ({"q": {"w": {"0": 5}}, "a": [1]}, {"a.0": 1, "q.w.0": 5}),
        ({"a": {"b": {"0": 5}, "c": [1]}}, {"c.0": 1, "b.0": 5}),
        ({"q": {"b": 5}, "a": []}, {"b": 5}),
        ({"z": {"x": {"b": 3}}, "y": {"x": 5}, "b": {"b": 1}}, {"b": 1, "x": 5, "z.x.b": 3}),
    ],
)
def test_values_come_to_the_top_with_their_own_names_while_those_are_free(record: Json, expected: Json) -> None:
    found = changed(FlattenFields(), record)
    assert list(expected.items()) == list(found.items())


def test_lists_may_stay() -> None:
    record = {"a": {"b": [{"c": 1}], "d": []}, "e": 1}
    assert changed(FlattenFields(flatten_lists=False), record) == {"e": 1, "d": [], "b": [{"c": 1}]}


RECORD = {"id": 1, "d": {"a": 1, "b": 2}, "n": {"m": {"x": 1}}, "l": [{"p": 1}, {"q": 2}], "s": "t"}


def flatten(path: list[str], **fields: Any) -> DpathFlattenFields:
    return validated(DpathFlattenFields, {"type": "DpathFlattenFields", "field_path": path, **fields})


@pytest.mark.parametrize(
    ("path", "added"),
    [
        (["d"], {"a": 1, "b": 2}),
        (["{{ config.p }}"], {"a": 1, "b": 2}),
        (["n", "m"], {"x": 1}),
        (["n", "*"], {"x": 1}),
        (["l", "*"], {"p": 1}),
        (["l", "-1"], {"q": 2}),
        (["s"], {}),
        (["l"], {}),
        (["missing"], {}),
        ([], {}),
    ],
)
def test_the_fields_of_an_object_come_to_the_top(path: list[str], added: Json) -> None:
    assert RECORD | added == changed(flatten(path), RECORD)


def test_nothing_happens_where_a_name_is_taken() -> None:
    record = {"d": {"a": 1, "z": 2}, "a": 0}
    assert record == changed(flatten(["d"], delete_origin_value=True), record)


def test_the_object_may_go_away() -> None:
    assert changed(flatten(["d"], delete_origin_value=True), {"id": 1, "d": {"x": 2}}) == {"id": 1, "x": 2}
    assert changed(flatten(["d"], delete_origin_value=True), {"d": {}, "a": 0}) == {"a": 0}


def test_the_object_may_become_the_record() -> None:
    assert changed(flatten(["d"], replace_record=True), {"d": {"a": 1, "z": 2}, "a": 0}) == {"a": 1, "z": 2}
    assert changed(flatten(["d"], replace_record=True), {"d": {}, "a": 0}) == {"d": {}, "a": 0}


def test_names_may_get_a_prefix_and_a_suffix() -> None:
    component = flatten(["d"], key_transformation={"prefix": "{{ config.p }}_", "suffix": "_s"})
    assert changed(component, {"d": {"a": 1}}) == {"d": {"a": 1}, "d_a_s": 1}


def test_a_path_to_everything_is_a_manifest_error() -> None:
    with pytest.raises(ManifestError, match="no `\\*\\*`"):
        changed(flatten(["**"]), RECORD)
