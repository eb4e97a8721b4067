"""Values set in copies of a template."""

from typing import Any

import pytest

from cdk.base.values import JsonObject
from cdk.declarative.components import register
from cdk.declarative.components.streams.dynamic_streams import ComponentMappingDefinition
from cdk.declarative.model.context import BuildContext, Runtime
from cdk.declarative.syntax.stream_templates import filled
from cdk.declarative.syntax.validation import validated

register()

TEMPLATE: JsonObject = {"name": "", "list": [{"a": 1}, {"a": 2}], "map": {"x": {"k": 0}, "y": {"k": 0}}, "flat": [1, 2]}


def setting(path: list[str], value: str, *, as_yaml: bool = False, **more: Any) -> Any:
    component = validated(ComponentMappingDefinition, {"field_path": path, "value": value, **more})
    return component.build(BuildContext({"n": "list"}, Runtime()), as_yaml=as_yaml)


def copy(*settings: Any, found: Any = None) -> Any:
    (made,) = filled(TEMPLATE, settings, [{"components_values": found or {}}])
    return made


@pytest.mark.parametrize(
    ("path", "create", "expected"),
    [
        (["name"], False, {"name": "v"}),
        (["nope"], False, {}),
        (["nope"], True, {"nope": "v"}),
        (["nope", "deep"], False, {}),
        (["nope", "deep"], True, {"nope": {"deep": "v"}}),
        (["nope", "0"], True, {"nope": ["v"]}),
        (["map", "*", "k"], False, {"map": {"x": {"k": "v"}, "y": {"k": "v"}}}),
        (["map", "*"], False, {"map": {"x": "v", "y": "v"}}),
        (["list", "*", "a"], False, {"list": [{"a": "v"}, {"a": "v"}]}),
        (["{{ config.n }}", "1", "a"], False, {"list": [{"a": 1}, {"a": "v"}]}),
        (["list", "-1", "a"], False, {"list": [{"a": 1}, {"a": "v"}]}),
        (["list", "-9", "a"], False, {}),
        (["list", "9", "a"], False, {}),
        (["flat", "-1"], False, {"flat": [1, "v"]}),
        (["flat", "-9"], False, {}),
        (["flat", "5"], False, {}),
        (["flat", "3"], True, {"flat": [1, 2, None, "v"]}),
        (["flat", "*"], False, {"flat": ["v", "v"]}),
        (["name", "below", "a text"], True, {}),
        (["True"], True, {"True": "v"}),
        (["1.5", "None"], True, {"1.5": {"None": "v"}}),
    ],
)
def test_a_value_is_set_where_the_path_leads(path: list[str], create: bool, expected: Any) -> None:  # noqa: FBT001
    assert copy(setting(path, "v", create_or_update=create)) == TEMPLATE | expected


def test_the_template_itself_stays_as_it_is() -> None:
    before = repr(TEMPLATE)

    copy(setting(["map", "*", "k"], "v"))

    assert repr(TEMPLATE) == before


@pytest.mark.parametrize(
    ("text", "kind", "plain", "as_yaml"),
    [
        ("10", None, 10, 10),
        ("00123", None, "00123", 83),
        ("yes", None, "yes", True),
        ("[a, b]", None, "[a, b]", ["a", "b"]),
        ("100%: {", None, "100%: {", "100%: {"),
        ("a\tb: c", None, "a\tb: c", "a\tb: c"),
        ("10", "string", "10", "10"),
        ("yes", "string", "yes", "yes"),
        ("10", "integer", 10, 10),
        ("10", "number", 10, 10),
        ("1.5", "integer", "1.5", 1.5),
        ("True", "boolean", True, True),
    ],
)
def test_a_text_is_a_literal_and_maybe_yaml(text: str, kind: str | None, plain: Any, as_yaml: Any) -> None:
    words = "{{ components_values.text }}"
    for expected, yaml in ((plain, False), (as_yaml, True)):
        made = copy(setting(["flat"], words, as_yaml=yaml, value_type=kind), found={"text": text})["flat"]
        assert (type(expected), expected) == (type(made), made)


def test_a_value_is_set_only_when_its_condition_holds() -> None:
    settings = [
        setting(["name"], "one", condition="{{ components_values.n == 1 }}"),
        setting(["flat"], "two", condition="{{ components_values.n == 2 }}"),
    ]

    assert copy(*settings, found={"n": 1}) == TEMPLATE | {"name": "one"}


def test_later_settings_see_what_earlier_ones_made() -> None:
    made = copy(setting(["new"], "{{ {'a': 1} }}", create_or_update=True), setting(["new", "a"], "2"))

    assert made["new"] == {"a": 2}


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ([(["name"], "v"), (["map", "x", "k"], "v"), (["list", "*", "a"], "v")], []),
        (
            [(["nme"], "v")],
            ["no 'nme' in the template, whose fields are 'name', 'list', 'map', 'flat' (is it 'name'?)"],
        ),
        ([(["map", "x", "kk"], "v")], ["no 'kk' in 'x', whose fields are 'k' (is it 'k'?)"]),
        ([(["map", "{{ components_values.part }}", "k"], "v")], []),
        ([(["map", "z", "k"], "v"), (["map", "*", "q"], "v")], ["no 'z' in 'map'", "no 'q' in an element of 'map'"]),
        ([(["flat", "9"], "v")], ["nothing at flat > 9 of the template"]),
        ([(["new"], "{{ {'a': 1} }}", {"create_or_update": True}), (["new", "a"], "2")], []),
        ([(["new", "a"], "2", {"condition": "{{ False }}"})], []),
        ([(["name"], "{{ components_values['pat'] }}")], ["no 'pat' in `components_values`, whose fields are 'part'"]),
        ([(["name"], "{{ components_values['pat'] or 'main' }}")], []),
        ([(["name"], "{{ components_values['pat'] or components_values.some }}")], []),
        ([(["name"], "{{ components_values.some }}")], []),
    ],
)
def test_a_value_that_no_copy_has_is_warned_of(
    caplog: pytest.LogCaptureFixture, settings: list[Any], warned: list[str]
) -> None:
    built = [setting(path, text, **(more[0] if more else {})) for path, text, *more in settings]
    scopes = [{"components_values": values} for values in ({"part": "q"}, {"part": "x", "some": "v"}, {"part": "r"})]

    assert len(list(filled(TEMPLATE, built, scopes))) == 3

    assert len(caplog.messages) == len(warned)
    for message, words in zip(caplog.messages, warned, strict=True):
        assert message.startswith("ComponentMappingDefinition, ")
        assert words in message


def test_without_a_copy_nothing_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert list(filled(TEMPLATE, [setting(["nope"], "v")], [])) == []
    assert caplog.messages == []
