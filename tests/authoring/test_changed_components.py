"""Components with one change anywhere: validation and the schema for editors agree, and every problem has a place."""

import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from cdk.authoring.manifest_schema import resolved_schema
from cdk.base.values import Json, Keys
from cdk.declarative.model.component import Component
from cdk.declarative.syntax.json_edit import part_at
from cdk.declarative.syntax.validation import validate
from tests.declarative.test_components import OURS, sample

VALUES: tuple[Json, ...] = (
    *(None, True, False, 0, -1, 7, 1.5, "", "x", "7", "true", "{{ config.x }}"),
    *([], ["x"], [["x"]], [7], {}, {"x": "x"}, {"type": "x"}, {"class_name": "x.Y"}),
    *(sample(Component.registry[name], full=False) for name in ("JsonDecoder", "RequestOption", "DpathExtractor")),
)

SHAPES = re.compile("found (?!the names)|unknown type|this ")
"""How a problem begins that is about a shape, and not about fields that do not fit each other."""


@st.composite
def changed(draw: st.DrawFn) -> tuple[str, Json]:
    """The name of a component, and the component with one change."""
    name = draw(st.sampled_from(OURS))
    value = deepcopy(sample(Component.registry[name], full=draw(st.booleans())))
    keys = draw(st.sampled_from([*places(value, ())]))
    holder: Json = part_at(value, keys[:-1])
    match draw(st.sampled_from(("replace", "remove", "rename"))):
        case "replace":
            holder[keys[-1]] = deepcopy(draw(st.sampled_from(VALUES)))
        case "rename" if isinstance(keys[-1], str):
            holder[f"{keys[-1]}s"] = holder.pop(keys[-1])
        case _:
            del holder[keys[-1]]
    return name, value


def places(value: Json, keys: Keys) -> Iterator[Keys]:
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*keys, key)
        yield from places(part, (*keys, key))


@cache
def accepts(kind: str) -> Draft7Validator:
    return Draft7Validator({**resolved_schema(), "allOf": [{"$ref": f"#/definitions/{kind}"}]})


@settings(max_examples=150)
@given(changed())
def test_a_changed_component_is_accepted_or_each_problem_has_a_place(written: tuple[str, Json]) -> None:
    name, value = written

    component, problems = validate(Component.registry[name], value)

    assert (component is None) == any(problem.certain for problem in problems)
    assert component is None or type(component) is Component.registry[name]
    for problem in problems:
        assert problem.text
        part_at(value, problem.keys)


@settings(max_examples=150)
@given(changed())
def test_what_the_schema_for_editors_accepts_has_the_right_shape(written: tuple[str, Json]) -> None:
    name, value = written
    kind = Component.registry[name]

    _, problems = validate(kind, value)

    if any(problem.certain and SHAPES.match(problem.text) for problem in problems):
        assert not accepts(kind.__name__).is_valid(value)
