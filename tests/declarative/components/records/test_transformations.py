"""The expected results are those of Airbyte's components."""

import pytest

from cdk.base.errors import FatalError, ManifestError
from cdk.base.values import Json
from cdk.declarative.components.records.transformations import AddFields, RemoveFields
from cdk.declarative.model.context import BuildContext, Names, Runtime
from cdk.declarative.model.request_plug_points import AnyTransformation
from cdk.declarative.syntax.validation import validated

SLICE: Names = {"stream_slice": {"k": "v"}}


def changed(component: AnyTransformation, record: dict[str, Json], names: Names = SLICE) -> dict[str, Json]:
    component.build(BuildContext({"account": "a1"}, Runtime(), "users"))([record], names)
    return record


def adding(
    *fields: tuple[list[str], Json], condition: str = "", kind: str | None = None, own: Json = None
) -> AddFields:
    given = {"value_type": kind, "$parameters": own or {"p": 1}}
    return validated(
        AddFields,
        {"type": "AddFields", "fields": [{"path": path, "value": value, **given} for path, value in fields]}
        | {"condition": condition, "$parameters": {"p": 1}},
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{{ record.b }}", 5),
        ("{{ record['missing'] }}", ""),
        ("{{ stream_slice['k'] }}-{{ config['account'] }}", "v-a1"),
        ("", ""),
        ("1", 1),
        (1, 1),
        (True, True),
        ("007", "007"),
        ("None", None),
        ("{{ record }}", {"b": "5"}),
    ],
)
def test_a_value_is_the_literal_that_it_renders_to(value: Json, expected: Json) -> None:
    assert {"b": "5", "a": expected} == changed(adding((["a"], value)), {"b": "5"})


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", "1", "1"),
        ("string", "'5'", "5"),
        ("string", "None", "None"),
        ("number", "1.5", 1.5),
        ("number", "1", "1"),
        ("integer", "1", 1),
        ("integer", "True", True),
        ("integer", "1.5", "1.5"),
        ("boolean", "True", True),
        ("boolean", "1", "1"),
        ("boolean", "[1]", "[1]"),
    ],
)
def test_a_value_of_another_type_than_told_stays_a_text(kind: str, value: str, expected: Json) -> None:
    assert repr({"a": expected}) == repr(changed(adding((["a"], value), kind=kind), {}))


def test_fields_see_those_added_before() -> None:
    assert changed(adding((["a"], "1"), (["b"], "{{ record.a + 1 }}")), {}) == {"a": 1, "b": 2}


def test_paths_make_what_leads_to_them_and_may_be_expressions() -> None:
    made = changed(adding((["{{ config['account'] }}", "p{{ parameters.p }}"], "x"), (["l", "1"], "y")), {})
    assert made == {"a1": {"p1": "x"}, "l": [None, "y"]}


def test_records_do_not_share_an_added_list() -> None:
    records: list[dict[str, Json]] = [{"n": 1}, {"n": 2}]
    adding((["a"], "[0]"), (["a", "0"], "{{ record.n }}")).build(BuildContext({}, Runtime()))(records, {})
    assert [record["a"] for record in records] == [[1], [2]]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("{{ value == 2 }}", {"b": 2}),
        ("{{ path[0] == 'a' }}", {"a": 1}),
        ("{{ not record.a }}", {"a": 1}),
        ("{{ stream_slice.k == 'v' }}", {"a": 1, "b": 2}),
        ("{{ record.nope.x }}", {}),
        ("{{ parameters.p == 1 }}", {"a": 1, "b": 2}),
        ("False", {}),
        (" ", {"a": 1, "b": 2}),
    ],
)
def test_a_condition_is_asked_for_each_field(condition: str, expected: Json) -> None:
    assert expected == changed(adding((["a"], "1"), (["b"], "2"), condition=condition), {})


def test_parameters_of_a_field_are_its_own() -> None:
    component = adding((["a"], "{{ parameters.p }}"), own={"p": 2})
    assert changed(component, {}) == {"a": 2}


def test_a_field_that_has_no_place_is_an_error_that_says_why() -> None:
    with pytest.raises(FatalError, match=r"users: AddFields.fields: found a string where 'b' belongs"):
        changed(adding((["a", "b"], "x")), {"a": "text"})


def test_a_field_needs_a_path() -> None:
    with pytest.raises(ManifestError):
        adding(([], "x"))


def removing(*pointers: list[str], condition: str = "") -> RemoveFields:
    return RemoveFields(field_pointers=list(pointers), condition=condition)


def test_fields_are_removed() -> None:
    record = {"tags": [1], "address": {"city": "x", "geo": {"lat": 1}}, "rows": [{"a": 1, "b": 2}]}
    made = changed(removing(["tags"], ["address", "geo"], ["rows", "*", "a"], ["nothing", "here"]), record)
    assert made == {"address": {"city": "x"}, "rows": [{"b": 2}]}


def test_pointers_are_no_expressions() -> None:
    assert changed(removing(["{{ config.account }}"]), {"a1": 1}) == {"a1": 1}


def test_a_condition_removes_every_value_it_holds_for() -> None:
    record = {"a": 1, "b": None, "c": {"d": 1, "e": 2}, "l": [1, 2], "x": [], "y": {}}
    expected = {"b": None, "c": {"e": 2}, "l": [None, 2], "x": [], "y": {}}
    assert expected == changed(removing(["**"], condition="{{ property == 1 }}"), dict(record))


def test_each_pointer_is_one_pass() -> None:
    record = {"l": [None, 1, None, None]}
    assert changed(removing(["**"], ["**"], condition="{{ property is none }}"), record) == {"l": [None, 1]}


def test_a_condition_without_expressions_holds_for_all_or_for_none() -> None:
    assert changed(removing(["a"], condition="False"), {"a": 1}) == {"a": 1}
    assert changed(removing(["a"], condition="True"), {"a": 1}) == {}


def test_a_pointer_that_means_too_much_is_a_manifest_error() -> None:
    with pytest.raises(ManifestError, match=r"users: RemoveFields.field_pointers: .* at most one"):
        changed(removing(["**", "**"]), {})
