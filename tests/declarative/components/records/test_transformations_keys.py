"""The expected results are those of Airbyte's components."""

import pytest

from cdk.base.values import Json
from cdk.declarative.components.records.transformations_keys import (
    KeysReplace,
    KeysToLower,
    KeysToSnakeCase,
    snake_case,
)
from cdk.declarative.model.context import BuildContext, Names, Runtime
from cdk.declarative.model.request_plug_points import AnyTransformation


def changed(component: AnyTransformation, record: dict[str, Json], names: Names) -> dict[str, Json]:
    component.build(BuildContext({"x": "zz"}, Runtime()))([record], names)
    return record


def test_names_at_the_top_become_lower_case() -> None:
    assert changed(KeysToLower(), {"AbC": 1, "d": {"X": 1}}, {}) == {"d": {"X": 1}, "abc": 1}
    assert changed(KeysToLower(), {"a": 2, "A": 1}, {}) == {"a": 1}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("camelCase", "camel_case"),
        ("PascalCase", "pascal_case"),
        ("First_Name", "first_name"),
        ("ID", "id"),
        ("userID", "user_id"),
        ("userIDNumber", "user_idnumber"),
        ("HTTPRequest", "httprequest"),
        ("A1B2", "a_1_b_2"),
        ("1abc", "_1_abc"),
        ("123", "_123"),
        ("2FA", "_2_fa"),
        ("OAuth2Token", "oauth_2_token"),
        ("  two  words ", "_two_words_"),
        ("two-words", "two_words"),
        ("eBay's", "e_bay_s"),
        ("a%", "a_"),
        ("__a__", "_a_"),
        ("-1", "_1"),
        ("$", ""),
        ("", ""),
        ("Ünïcode", "unicode"),
        ("straße", "strasse"),
        ("½", "_1_2"),
        ("\N{ARABIC-INDIC DIGIT ONE}", "_1"),
        ("1.5", "_1_5"),
    ],
)
def test_names_become_snake_case(name: str, expected: str) -> None:
    assert expected == snake_case(name)


def test_letters_without_a_latin_form_stay() -> None:
    assert snake_case("名前") == "名前"


def test_objects_inside_get_snake_case_too_and_lists_do_not() -> None:
    record = {"aB": {"cD": [{"eF": 1}], "gH": {"iJ": 2}}}
    assert changed(KeysToSnakeCase(), record, {}) == {"a_b": {"c_d": [{"eF": 1}], "g_h": {"i_j": 2}}}


@pytest.mark.parametrize(
    ("old", "new", "record", "expected"),
    [
        (" ", "_", {"a b": 1, "c": {"d e": [{"g h": 1}]}}, {"a_b": 1, "c": {"d_e": [{"g h": 1}]}}),
        ("a", "b", {"a": 1, "b": 2}, {"b": 2}),
        ("a", "", {"ab": 1}, {"b": 1}),
        ("{{ record.id }}", "{{ config.x }}", {"id": 5, "a5": 1}, {"id": 5, "azz": 1}),
        ("{{ stream_slice.id }}", "_", {"qa": 1}, {"_a": 1}),
        ("a", "1e3", {"a": 1}, {"1000.0": 1}),
    ],
)
def test_a_text_in_names_is_replaced(old: str, new: str, record: Json, expected: Json) -> None:
    assert expected == changed(KeysReplace(old=old, new=new), record, {"stream_slice": {"id": "q"}})
