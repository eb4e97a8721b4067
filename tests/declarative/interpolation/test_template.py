import pickle
import subprocess
import sys
from collections.abc import Mapping

import pytest

from cdk.base.values import Json
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.interpolation.template import compile_mapping, compile_nested, compile_template

CONFIG = {"a": 1, "text": "x", "none": None, "empty": "", "map": {"x": 1}, "list": [1, 2], "name": "O'Neil", "key": "k"}
RECORD = {
    "id": 7,
    "name": "Ann",
    "amount": "12.5",
    "qty": 2,
    "tags": ["a", "b"],
    "address": {"city": "Oslo"},
    "none": None,
}
SLICE = {"start_time": "2024-01-01", "k": 3}
SCOPE: Mapping[str, Json] = {"config": CONFIG, "record": RECORD, "stream_slice": SLICE, "parameters": {"p": 1}}

# What Airbyte's interpolation answers to the same texts.
TABLE: list[tuple[str, Json]] = [
    ("hello", "hello"),
    ("hello\n", "hello"),
    ("10", 10),
    ("007", "007"),
    ("stream_state", "stream_state"),
    ("{{ config.a }}", 1),
    ("{{ config.a }}\n", 1),
    (" {{ config.a }}", 1),
    ("{{ config.missing }}", ""),
    ("{{ config['missing'] }}", ""),
    ("{{ config.none }}", None),
    ("{{ config.list }}", [1, 2]),
    ("{{ config.map }}", {"x": 1}),
    ("{{ config.name }}", "O'Neil"),
    ("{{ [config.name] }}", ["O'Neil"]),
    ("{{ record['address']['city'] }}", "Oslo"),
    ("{{ record.tags[5] }}", ""),
    ("{{ record.tags.0 }}", "a"),
    ("{{ record.get('nope') }}", None),
    ("{{ record.get('nope', 'z') }}", "z"),
    ("{{ record.name }} <{{ record.id }}>", "Ann <7>"),
    ("{{ record.id }}{{ record.qty }}", 72),
    ("{{ record.id }},{{ record.qty }}", (7, 2)),
    ("{{ record.amount|float * record.qty }}", 25.0),
    ("{{ record.none or 'y' }}", "y"),
    ("{{ 'x' if record.id > 50 }}", ""),
    ("{{ 1 < 2 < 3 }}", True),
    ("{{ 3 in config.list }}", False),
    ("{{ '5' }}", 5),
    ("{{ ' ' }}", " "),
    ("{{ 1e400 }}", "inf"),
    ("{{ [1e400] }}", "[inf]"),
    ("{{ config.missing ~ 'x' }}", "x"),
    ("{{ config.missing == '' }}", False),
    ("{{ config.missing|length }}", 0),
    ("{{ [config.missing] }}", "[Undefined]"),
    ("{{ record.keys()|list }}", ["id", "name", "amount", "qty", "tags", "address", "none"]),
    ("{{ config.map.keys() }}", "dict_keys(['x'])"),
    ("{{ 'abc'[1:] }}", "bc"),
    ("{{ dict(a=1) }}", {"a": 1}),
    ("{{ namespace(a=1).a }}", 1),
    ("{# note #}5", 5),
    ("{% if record.id > 3 %}big{% else %}small{% endif %}", "big"),
    ("{% for t in record.tags %}{{ t }}-{% endfor %}", "a-b-"),
    ("{% set x = 3 %}{{ x }}", 3),
    ("{% set x = [] %}{{ x.append(1) or x }}", [1]),
    ("{{ parameters['q'] }}", ""),
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_a_text_gives_the_value_that_airbyte_gives(text: str, expected: Json) -> None:
    value = compile_template(text).value(SCOPE)

    assert (type(expected), expected) == (type(value), value)


def test_literals_of_other_types_stay_texts() -> None:
    def value(text: str) -> Json:
        return compile_template(text).value(SCOPE, types=(str, list))

    assert [
        value(text) if text != "[1]" else str(value(text))
        for text in ("{{ config.a }}", "{{ config.none }}", "[1]", "{{ config.map }}", "10")
    ] == ["1", "None", "[1]", "{'x': 1}", "10"]


@pytest.mark.parametrize("text", ["", "{{ config.missing }}", "{{ config.missing.x }}", "{{ config.empty }}"])
def test_the_default_stands_for_what_is_empty_or_missing(text: str) -> None:
    assert compile_template(text).value(SCOPE, default=5) == 5


def test_a_failure_is_no_reason_for_the_default() -> None:
    with pytest.raises(ExpressionError, match="divides by zero"):
        compile_template("{{ 1 / 0 }}").value(SCOPE, default=5)


def test_rendered_text_is_not_typed() -> None:
    assert [
        compile_template(text).render(SCOPE)
        for text in ("007", "{{ record.id }}", "{{ record.tags }}", "{{ record.x }}")
    ] == ["007", "7", "['a', 'b']", ""]


FALSE = [
    "",
    "False",
    "false",
    "{}",
    "[]",
    "()",
    "set()",
    "0",
    "0.0",
    "-0",
    "None",
    "{{ config.missing.x }}",
    "{{ ' False' }}",
]
TRUE = [" ", "no", "null", "FALSE", "True", "hello", "5", "{{ config.list }}", '{{ config.name == "O\'Neil" }}']


@pytest.mark.parametrize(("text", "expected"), [*((text, False) for text in FALSE), *((text, True) for text in TRUE)])
def test_conditions(text: str, expected: bool) -> None:  # noqa: FBT001 - a table
    assert expected is compile_template(text).true(SCOPE)


def test_a_template_knows_what_it_reads() -> None:
    seen = {
        text: (set(template.names), template.fixed, template.varies)
        for text in (
            "a",
            "{{ 1 }}",
            "{{ config.a ~ record['x'] }}",
            "{{ now_utc() }}",
            "{% if day_delta(1) %}{{ a }}{% endif %}",
        )
        for template in [compile_template(text)]
    }

    assert {
        "a": (set(), True, False),
        "{{ 1 }}": (set(), True, False),
        "{{ config.a ~ record['x'] }}": ({"config", "record"}, False, False),
        "{{ now_utc() }}": (set(), False, True),
        "{% if day_delta(1) %}{{ a }}{% endif %}": ({"a"}, False, True),
    } == seen


def test_what_an_expression_gives_is_not_what_it_read() -> None:
    address: Json = compile_template("{{ record.address }}").value(SCOPE)
    items: Json = compile_template("{{ [1] }}").value(SCOPE)

    address["city"] = "Rome"
    items.append(2)

    assert RECORD["address"] == {"city": "Oslo"}
    assert compile_template("{{ [1] }}").value(SCOPE) == [1]


def test_a_map_is_evaluated_and_loses_what_is_null_or_empty() -> None:
    template = compile_mapping(
        {
            "{{ config.key }}": "{{ config.a }}",
            "n": None,
            "none": "{{ config.none }}",
            "missing": "{{ config.missing.x }}",
            "empty": "",
            "number": 5,
            "list": ["{{ 1 }}"],
        }
    )

    assert template.value(SCOPE) == {"k": 1, "number": 5, "list": ["{{ 1 }}"]}
    assert template.value(SCOPE, (str, list)) == {"k": "1", "none": "None", "number": 5, "list": ["{{ 1 }}"]}


def test_a_map_may_be_one_expression() -> None:
    assert compile_mapping("{{ config.map }}").value(SCOPE) == {"x": 1}
    assert compile_mapping("a={{ config.a }}").value(SCOPE) == "a=1"
    assert compile_mapping("{{ config.missing }}").value(SCOPE) == {}


def test_nested_values_are_evaluated_at_any_depth() -> None:
    template = compile_nested(
        {
            "{{ config.key }}": 1,
            "n": None,
            "l": ["{{ config.a }}", None, {"x": "{{ config.none }}"}],
            "d": {},
            "e": "",
            "b": True,
        }
    )

    assert template.value(SCOPE) == {"k": 1, "l": [1, None, {}], "d": {}, "b": True}


def test_texts_without_expressions_do_not_import_jinja() -> None:
    code = (
        "import sys; from cdk.declarative.interpolation.template import compile_template as c;"
        "assert c('[1]').value({}) == [1]; assert 'jinja2' not in sys.modules"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_templates_travel_to_another_process() -> None:
    templates = [
        compile_template("{{ config.a }}"),
        compile_mapping({"{{ config.key }}": "{{ config.a }}"}),
        compile_nested(["{{ config.a }}"]),
    ]

    travelled = pickle.loads(pickle.dumps(templates))  # noqa: S301 - just written

    assert [template.value(SCOPE) for template in travelled] == [1, {"k": 1}, [1]]


@pytest.mark.parametrize(
    "text",
    [
        "{{ record.n }}",
        "{{ record.n > 1 }}",
        "{{ record.n and record.s }}",
        "{{ record['s'] }}{{ record.n }}",
        "{{ record.nope }}",
        "plain",
        "{{ config.a }}",
        "{% if record.n %}x{% endif %}",
    ],
)
def test_a_page_gets_what_each_of_its_records_would(text: str) -> None:
    records: list[dict[str, Json]] = [
        {"n": 0, "s": "12"},
        {"n": 2, "s": "b"},
        {"n": 3, "s": ""},
        {"s": "no n"},
        {"n": 2.5, "s": "[1]"},
    ]
    template = compile_template(text)
    scope: dict[str, Json] = {"config": {"a": "[1]"}}
    alone = [{**scope, "record": record} for record in records]

    assert template.matching(scope, records) == [seen["record"] for seen in alone if template.true(seen)]
    if "> 1" not in text:
        assert template.values(scope, records) == [template.value(seen) for seen in alone]
        assert template.values(scope, records, (str,)) == [template.value(seen, (str,)) for seen in alone]


def test_a_page_fails_as_the_record_that_fails_would() -> None:
    template = compile_template("{{ record.n + 1 }}", "x.y")

    with pytest.raises(ExpressionError, match=r"x\.y.*the types are incompatible"):
        template.values({}, [{"n": 1}, {"n": "b"}])
    assert template.matching({}, [{"n": 1}, {"n": "b"}, {"n": -1}]) == [{"n": 1}, {"n": "b"}]
