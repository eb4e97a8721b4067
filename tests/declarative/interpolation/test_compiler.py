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
def test_a_closure_gives_what_jinja_renders(form: str, expression: str) -> None:
    env, text = environment(), form.format(expression)
    try:
        run, found = compile_nodes(env, env.parse(text))
    except Unsupported:
        assume(False)
        raise
    rendered = _outcome(lambda: env.from_string(text).render(SCOPE))
    value = _outcome(lambda: run(SCOPE))

    assert found.names <= SCOPE.keys()
    if "generator object" not in str(rendered) and " at 0x" not in str(rendered):
        assert str(rendered) == str(value)
        assert repr(literal(rendered) if isinstance(rendered, str) else rendered) == repr(typed(value))


@pytest.mark.parametrize(
    "text", ["{% if record.id %}x{% endif %}", "{{ f(*record.tags) }}", "{{ config|map('upper') }}"]
)
def test_what_has_no_closure_is_left_to_jinja(text: str) -> None:
    env = environment()

    with pytest.raises(Unsupported):
        compile_nodes(env, env.parse(text))
