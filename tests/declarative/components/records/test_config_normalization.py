from typing import Any

import pytest

from cdk.base import bounded_regex
from cdk.base.errors import ConfigError, FatalError, ManifestError
from cdk.base.values import Json
from cdk.declarative.components.records.config_normalization import ConfigNormalizationRules, ConfigRules
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.syntax.validation import validated


def rules(**parts: Any) -> ConfigRules:
    component = validated(ConfigNormalizationRules, {"type": "ConfigNormalizationRules", **parts})
    return component.build(BuildContext({}, Runtime()))


def remap(field_path: list[str], map: Json) -> Json:
    return {"type": "ConfigRemapField", "field_path": field_path, "map": map}


def add(path: list[str], value: str, **more: Json) -> Json:
    return {"type": "ConfigAddFields", "fields": [{"path": path, "value": value}], **more}


def remove(*pointers: list[str], **more: Json) -> Json:
    return {"type": "ConfigRemoveFields", "field_pointers": list(pointers), **more}


@pytest.mark.parametrize(
    ("change", "config", "expected"),
    [
        (remap(["s"], {"a": "b"}), {"s": "a"}, {"s": "b"}),
        (remap(["s"], {"a": "b"}), {"s": "q"}, {"s": "q"}),
        (remap(["s"], {"a": "b"}), {"s": ["a"]}, {"s": ["a"]}),
        (remap(["s"], {"a": "b"}), {}, {}),
        (remap(["s", "t"], {"a": "b"}), {"s": {"t": "a"}}, {"s": {"t": "b"}}),
        (remap(["s", "t"], {"a": "b"}), {"s": "text"}, {"s": "text"}),
        (remap(["*", "t"], {"a": "b"}), {"s": {"t": "a"}}, {"s": {"t": "a"}}),
        (remap(["{{ config.k }}"], {"a": "b"}), {"s": "a", "k": "s"}, {"s": "b", "k": "s"}),
        (remap(["s"], {"a": "{{ config.x }}"}), {"s": "a", "x": "X"}, {"s": "X", "x": "X"}),
        (remap(["s"], {"a": "5"}), {"s": "a"}, {"s": 5}),
        (remap(["s"], {"a": ""}), {"s": "a"}, {"s": None}),
        (remap(["s"], {"a": {"x": 1}}), {"s": "a"}, {"s": {"x": 1}}),
        (remap(["s"], {"1": "b"}), {"s": 1}, {"s": 1}),
        (remap(["s"], "{{ config.m }}"), {"s": "a", "m": {"a": "z"}}, {"s": "z", "m": {"a": "z"}}),
        (add(["a", "b"], "{{ config.x }}"), {"x": "q"}, {"x": "q", "a": {"b": "q"}}),
        (add(["a"], "1", condition="{{ config.a == 5 and value == 1 }}"), {"a": 5}, {"a": 1}),
        (add(["a"], "1", condition="{{ not config.a }}"), {"a": 5}, {"a": 5}),
        (remove(["a"], ["b", "*"]), {"a": 1, "b": {"c": 2}}, {"b": {}}),
        (remove(["a"], ["b"], condition="{{ config.a == 1 }}"), {"a": 1, "b": 2}, {}),
        (remove(["a"], condition="{{ config.a == 2 }}"), {"a": 1}, {"a": 1}),
    ],
)
def test_a_config_is_changed(change: Json, config: Json, expected: Json) -> None:
    assert expected == rules(transformations=[change]).transform(config)


def test_migrations_see_what_those_before_made() -> None:
    first = {"type": "ConfigMigration", "transformations": [remap(["s"], {"a": "b"}), remap(["s"], {"b": "c"})]}
    second = {"transformations": [add(["t"], "{{ config.s }}!")]}
    assert rules(config_migrations=[first, second]).migrate({"s": "a"}) == {"s": "c", "t": "c!"}


def test_a_config_of_todays_form_is_the_same_object_and_an_old_one_is_left_alone() -> None:
    made = rules(config_migrations=[{"transformations": [remap(["s", "t"], {"a": "b"})]}])
    today, old = {"s": {"t": "b"}}, {"s": {"t": "a"}}
    assert made.migrate(today) is today
    assert made.migrate(old) == {"s": {"t": "b"}}
    assert old == {"s": {"t": "a"}}


def test_a_connector_without_rules_changes_nothing() -> None:
    config = {"a": 1}
    made = rules()
    made.validate(config)
    assert made.migrate(made.transform(config)) is config


def test_a_field_without_a_place_in_the_config_is_named() -> None:
    with pytest.raises(ConfigError, match=r"a.b: ConfigAddFields.fields: found a number where 'b' belongs"):
        rules(transformations=[add(["a", "b"], "1")]).transform({"a": 5})


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def dpath(path: list[str], schema: Json) -> ConfigRules:
    strategy = {"type": "ValidateAdheresToSchema", "base_schema": schema}
    return rules(validations=[{"type": "DpathValidator", "field_path": path, "validation_strategy": strategy}])


@pytest.mark.parametrize(
    ("path", "schema", "config"),
    [
        (["a"], SCHEMA, {"a": {"n": 1}}),
        (["a"], SCHEMA, {"a": '{"n": 1}'}),
        (["a"], SCHEMA, {}),
        (["a", "b"], SCHEMA, {"a": 5}),
        (["a", "*"], SCHEMA, {"a": [{"n": 1}, {"n": 2}]}),
        (["{{ config.k }}"], SCHEMA, {"k": "a", "a": {"n": 1}}),
        (["a"], {"type": "string", "pattern": "^x"}, {"a": "xyz"}),
        (["a"], '{"type": "integer"}', {"a": 1}),
    ],
)
def test_a_config_that_fits_is_accepted(path: list[str], schema: Json, config: Json) -> None:
    dpath(path, schema).validate(config)


@pytest.mark.parametrize(
    ("path", "schema", "config", "message"),
    [
        (
            ["a"],
            SCHEMA,
            {"a": {"n": "s3cret"}},
            "config.a: n: found a string that is not valid, expected type: integer",
        ),
        (["a"], SCHEMA, {"a": {"s3cret": 1}}, "config.a: found an object without n, expected one with it"),
        (["a"], SCHEMA, {"a": None}, "config.a: found null that is not valid, expected type: object"),
        (["a", "*"], SCHEMA, {"a": [{"n": 1}, {}]}, "config.a.*: found an object without n, expected one with it"),
        (
            ["a"],
            {"type": "string", "pattern": "^x"},
            {"a": "s3cret"},
            "config.a: found a string that is not valid, expected pattern: ^x",
        ),
    ],
)
def test_a_config_that_does_not_fit_is_refused_without_its_values(
    path: list[str], schema: Json, config: Json, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        dpath(path, schema).validate(config)
    assert message == str(refused.value)


def test_a_pattern_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_regex, "_SECONDS", 0.1)

    with pytest.raises(FatalError, match=r"was stopped after 0\.1 seconds"):
        dpath(["a"], {"pattern": "^(a|a)*$"}).validate({"a": "a" * 40 + "!"})


def predicate(value: Json, schema: Json) -> ConfigRules:
    strategy = {"type": "ValidateAdheresToSchema", "base_schema": schema}
    return rules(validations=[{"type": "PredicateValidator", "value": value, "validation_strategy": strategy}])


def test_a_value_made_of_the_config_is_checked() -> None:
    made = predicate({"n": "{{ config.version }}"}, SCHEMA)
    made.validate({"version": 3})
    with pytest.raises(ConfigError, match=r"PredicateValidator.value: n: found a string that is not valid"):
        made.validate({"version": "s3cret"})


def test_a_schema_that_is_none_is_a_manifest_error() -> None:
    with pytest.raises(ManifestError, match="is not a valid JSON Schema"):
        dpath(["a"], {"type": "weird"})
    with pytest.raises(ManifestError, match="which is an object"):
        dpath(["a"], "not json")


def test_a_path_is_needed() -> None:
    with pytest.raises(ManifestError):
        rules(transformations=[remap([], {"a": "b"})])
