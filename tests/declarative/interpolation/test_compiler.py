from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cdk.base.values import Json
from cdk.declarative.interpolation.compiler import Unsupported, compile_nodes
from cdk.declarative.interpolation.environment import environment
from cdk.declarative.interpolation.literals import literal, typed

SCOPE: dict[str, Json] = {
    "config": {
        "a": 1,
        "text": "O'Neil",
        "none": None,
        "list": [3, 1, 2],
        "map": {"x": {"y": 2.5}},
        "items": [1],
        "t": True,
    },
    "record": {"id": 7, "name": "Ann", "amount": "12.5", "tags": ["a", "b"], "address": {"city": "Oslo"}},
}

ATOMS = st.sampled_from(
    [
        "1",
        "0",
        "2.5",
        "'x'",
        "''",
        "'12'",
        "none",
        "true",
        "false",
        "config",
        "config.a",
        "config['text']",
        "config.none",
        "config.list",
        "config.map.x",
        "config.map.x.y",
        "config['map']['x']['y']",
        "config.missing",
        "config['missing']",
        "config.missing.x",
        "config['items']",
        "config.get('a')",
        "record.id",
        "record.name",
        "record.amount",
        "record.tags[0]",
        "record.tags[-1]",
        "record.tags[9]",
        "record.address['city']",
        "record.tags.0",
        "record.address.city.x",
        "[1, 'a']",
        "('a', 2)",
        "{'k': record.id}",
        "config.list[1:]",
        "record.name[::-1]",
        "record.name.lower()",
        "record.address.items()",
        "record.nope()",
        "'a,b'.split(',')",
        "'a'.__class__",
        "'{}'.format(record.id)",
        "max(1, 2)",
        "dict(a=1)",
        "record.name.split(sep='n')",
    ]
)
BINARY = st.sampled_from(
    ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">=", "and", "or", "in", "not in", "< 3 <"]
)
AFTER = st.sampled_from(
    [
        "|string",
        "|length",
        "|upper",
        "|int",
        "|float",
        "|default('d')",
        "|default('d', true)",
        "|join('-')",
        "|first",
        "|tojson",
        "|list",
        "|sort",
        "|replace('a', 'b')",
        "|hash",
        "|urlencode",
        " is defined",
        " is none",
        " is string",
        " is not number",
        " is divisibleby(2)",
        "['x']",
        ".x",
        "|map('upper')|list",
        "|round(1)",
        "|trim",
        "|regex_search('(.)')",
    ]
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, BINARY, inner),
        st.builds("(({}){})".format, inner, AFTER),
        st.builds("(not {})".format, inner),
        st.builds("(-{})".format, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("({} if {})".format, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
    )


EXPRESSIONS = st.recursive(ATOMS, _grow, max_leaves=5)


def _outcome(call: Any, *args: Any) -> object:
    try:
        return call(*args)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong must go wrong in both
        return type(error).__name__


@pytest.mark.parametrize("form", ["{{{{ {} }}}}", "a{{{{ {} }}}} b {{{{ record.id }}}}"])
@given(expression=EXPRESSIONS)
def test_an_expression_gives_what_jinja_renders(form: str, expression: str) -> None:
    env, text = environment(), form.format(expression)
    try:
        evaluation = compile_nodes(env, env.parse(text))
    except Unsupported:
        assume(False)
        raise
    rendered = _outcome(lambda: env.from_string(text).render(SCOPE))
    value = _outcome(lambda: evaluation.run(SCOPE))
    values = _outcome(lambda: evaluation.column({"config": SCOPE["config"]}, [SCOPE["record"]] * 2))

    assert evaluation.names <= SCOPE.keys()
    assert repr(values) == repr([value, value]) or values == value or " at 0x" in repr(values)
    if "generator object" not in str(rendered) and " at 0x" not in str(rendered):
        assert str(rendered) == str(value)
        assert repr(literal(rendered) if isinstance(rendered, str) else rendered) == repr(typed(value))


@pytest.mark.parametrize(
    "text", ["{% if record.id %}x{% endif %}", "{{ f(*record.tags) }}", "{{ config|map('upper') }}"]
)
def test_what_has_no_python_expression_is_left_to_jinja(text: str) -> None:
    env = environment()

    with pytest.raises(Unsupported):
        compile_nodes(env, env.parse(text))


def test_a_name_is_that_of_the_scope_whatever_python_calls_so() -> None:
    env = environment()
    names = {"type": {"dict": 1}, "scope": 2, "values": 3, "records": 4, "b0": 5, "v0": 6, "class": 7}
    evaluation = compile_nodes(env, env.parse("{{ [type.dict, scope, values, records, b0, v0, class] }}"))

    assert evaluation.run(names) == [1, 2, 3, 4, 5, 6, 7]
    assert evaluation.column(names, [{}, {}]) == [[1, 2, 3, 4, 5, 6, 7]] * 2


def test_nothing_of_python_is_within_reach() -> None:
    env = environment()

    with pytest.raises(KeyError):
        compile_nodes(env, env.parse("{{ __import__ }}")).run({})
    with pytest.raises(KeyError):
        compile_nodes(env, env.parse("{{ record or type or dict or b0 }}")).run({"record": 0})
    with pytest.raises(Unsupported):
        compile_nodes(env, env.parse("{{ eval('1') }}"))
