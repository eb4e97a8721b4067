import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdk.declarative.interpolation.build import build
from cdk.declarative.interpolation.evaluation import Evaluation
from cdk.declarative.interpolation.lookups import lookups
from cdk.declarative.interpolation.template import compile_template

KEYS = ("id", "items", "get", "a-b", "Ü", "class", "none", "_private")
NAMES = ("config", "record", "parameters", "stream_partition", "stream_state", "konfig", "now_utc", "true")
KNOWN = frozenset(("id", "items"))

quoted = st.sampled_from(KEYS).map(lambda key: st.sampled_from([f"'{key}'", f'"{key}"'])).flatmap(lambda each: each)
defaults = st.sampled_from(
    ["", ", 'x'", ', "it\'s"', ", 0", ", 12", ", 007", ", None", ", true", ", 1.5", ", {}", ", []"]
)
steps = st.one_of(
    st.sampled_from(KEYS).map(".{}".format),
    quoted.map("[{}]".format),
    quoted.map("[ {} ]".format),
    st.tuples(quoted, defaults).map(lambda each: f".get({each[0]}{each[1]})"),
    st.sampled_from(["[0]", ".get", ".items()", "['a' 'b']", "[id]", "['a\\n']", " .id", "|string", ".id()"]),
)
expressions = st.tuples(
    st.sampled_from(["{{ ", "{{", "{{-", "{{\n"]),
    st.sampled_from(NAMES),
    st.lists(steps, max_size=3).map("".join),
    st.sampled_from([" }}", "}}", "-}}", " }", "}}}"]),
).map("".join)
literals = st.sampled_from(
    ["", " ", "/v1/", "{", "}", "}}", "{{", "{# c #}", "{% if config %}", "\n", "\r\n", "é", "\\"]
)
texts = st.lists(literals | expressions | expressions, min_size=1, max_size=4).map("".join)
values = st.recursive(
    st.sampled_from([None, True, 0, 7, 1.5, "", "x", "1", "long" * 5_000]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)


class Headers(dict[str, Any]):
    """A map that is not plain."""


scopes = st.fixed_dictionaries(
    {name: values | st.dictionaries(st.sampled_from(KEYS), values) for name in NAMES[:6]}
) | (st.fixed_dictionaries({"config": st.dictionaries(st.sampled_from(KEYS), values).map(Headers)}))


def outcome(evaluation: Evaluation, scope: Mapping[str, object]) -> tuple[object, ...]:
    try:
        value = evaluation.run(scope)
        column = evaluation.column(scope, [{"id": 1}, scope.get("record")])
    except Exception as error:  # noqa: BLE001 - an error is an outcome, too
        return type(error), str(error)
    return shown(value), [shown(each) for each in column]


def shown(value: object) -> tuple[type, str]:
    """Undefined values are equal to nothing; a method's text names its address."""
    return type(value), re.sub(" at 0x[0-9a-f]+", "", str(value))


@given(text=texts, scope=scopes)
def test_a_lookup_is_what_jinja_makes_of_it(text: str, scope: Mapping[str, object]) -> None:
    short = lookups(text, KNOWN, lambda: build(text, "", KNOWN))
    if short is None:
        return
    whole = build(text, "", KNOWN)

    assert outcome(short, scope) == outcome(whole, scope)
    assert (short.names, list(short.paths)) == (whole.names, list(whole.paths))
    assert (short.varies, short.quotes) == (whole.varies, whole.quotes)


@pytest.mark.parametrize(
    "text",
    [
        "{{ config['url'] }}/v1/{{config.version}}\n",
        '{{ config.get("size", 10) }}',
        "{{ parameters.id }}",
        "{{ stream_partition['parent']['id'] }}",
    ],
)
def test_most_texts_of_manifests_need_no_jinja(text: str) -> None:
    assert lookups(text, KNOWN, lambda: pytest.fail("Jinja")) is not None


@pytest.mark.parametrize(
    "text",
    ["{{ parameters.ID }}", "{{ stream_state.id }}", "{{ konfig.id }}", "{{ config.items }}", "{{ config }} {% raw %}"],
)
def test_what_jinja_warns_of_or_calls_is_left_to_it(text: str) -> None:
    assert lookups(text, KNOWN, lambda: pytest.fail("Jinja")) is None


def test_jinja_is_imported_when_a_key_is_missing() -> None:
    program = """
import sys
from cdk.declarative.interpolation.template import compile_template
template = compile_template("{{ config['id'] }}")
print(template.value({"config": {"id": 1}}), "jinja2" in sys.modules)
print(template.value({"config": {}}, default="none"), "jinja2" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert run.stdout.splitlines() == ["1 False", "none True"]


@pytest.mark.parametrize(
    ("known", "hint"), [(KNOWN, "did you mean 'id'?"), (frozenset[str](), "expressions know none here")]
)
def test_the_unknown_parameter_of_a_lookup_is_reported(
    known: frozenset[str], hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    compile_template("{{ parameters.idd }}", "retriever.path", known)

    assert caplog.messages == [
        f"retriever.path: the parameter 'idd' of {{{{ parameters.idd }}}} is not defined, so it is empty; {hint}"
    ]
