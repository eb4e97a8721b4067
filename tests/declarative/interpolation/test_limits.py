from contextlib import suppress

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from cdk.declarative.interpolation.environment import environment
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.interpolation.limits import MAX_TEXT
from cdk.declarative.interpolation.template import compile_template

HUGE = [
    "{{ 'a' * 10**10 }}",
    "{{ 10**10 * 'a' }}",
    "{{ [0] * 10**10 }}",
    "{{ 10**(10**10) }}",
    "{{ (10**3000)**3000 }}",
    "{{ 10**3000 * 10**3000 }}",
    "{{ 'x'|center(10**10) }}",
    "{{ 'x'.ljust(10**10) }}",
    "{{ '\t'.expandtabs(10**9) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (10**9, 1) }}",
    "{{ '%0999999999d'|format(1) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:{w}}'.format(1, w=10**9) }}",
    "{{ [1]|batch(10**9, 0)|list }}",
    "{{ ('x'*1000000).replace('x', 'y'*1000000) }}",
    "{{ ('x'*1000000)|replace('x', 'y'*1000000) }}",
    "{{ (['x'*1000000]*1000000)|join }}",
    "{% set a = 'a' * 10**10 %}{{ a }}",
    "{% if 10**(10**10) %}x{% endif %}",
    "{% set a = 'x'.center(10**10) %}",
]


@pytest.mark.parametrize("call", ["tojson", "replace('a', 'b')", "indent(2)", "truncate(99)", "trim"])
def test_a_text_that_is_not_filled_in_may_look_like_a_form(call: str) -> None:
    text = "{{ 1 * 1 }} %*d {:9999999}"

    assert text in str(
        compile_template(f"{{{{ config['text'] | {call} }}}}").value({"config": {"text": text}}, default=None)
    )


@pytest.mark.parametrize("text", HUGE)
def test_runaway_expressions_are_refused_at_once(text: str) -> None:
    with pytest.raises(ExpressionError, match="too large"):
        compile_template(text).value({})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ 2 ** 10 }}", 1024),
        ("{{ 2 ** -1 }}", 0.5),
        ("{{ 'ab' * 2 }}", "abab"),
        ("{{ '%05d|' % 7 }}", "00007|"),
        ("{{ 'x'.center(3, '-') }}", "-x-"),
        ("{{ '{:>3}|'.format('x') }}", "  x|"),
        ("{{ 'order 1234567'.replace('order', 'no') }}", "no 1234567"),
        ("{{ 7 % 4 }}", 3),
        ("{{ [1|tojson, 'a b'|urlencode, '<'|e]|length }}", 3),
        ("{% if 1 %}{{ {'a': [1]}|tojson }}{% endif %}", {"a": [1]}),
    ],
)
def test_ordinary_sizes_pass(text: str, expected: object) -> None:
    assert expected == compile_template(text).value({})


DOUBLED = "{% set a = B %}" + "{% set a = C %}" * 60 + "{{ a }}"


@pytest.mark.parametrize(
    "text",
    [
        "{{ 1 | round(1000000000, 'ceil') }}",
        "{% macro f(n) %}{{ f(n) ~ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% macro f(n) %}{% if n < 40 %}{{ f(n + 1) ~ f(n + 1) }}{% endif %}{% endmacro %}{{ f(1) }}",
        "{{ [[1] * 1000000] * 1000 }}",
        "{{ [[1] * 999999] * 1000 | list }}",
        "{{ ([[1]] * 400000) | sum(start=[]) }}",
        DOUBLED.replace("B", "'x'").replace("C", "a ~ a"),
        DOUBLED.replace("B", "'x'").replace("C", "a + a"),
        DOUBLED.replace("B", "[1]").replace("C", "a + a"),
        DOUBLED.replace("B", "[1]").replace("C", "[a, a]"),
        DOUBLED.replace("B", "{}").replace("C", "{'a': a, 'b': a}"),
        "{% set a = [1] %}" + "{{ a.extend(a) }}" * 60,
        "{% set n = namespace(a='x') %}{% for i in 'x' * 1000 %}{% set n.a = n.a ~ n.a %}{% endfor %}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '{:{a[w]}}'.format(1, a={'w': 1000000000}) }}",
        "{{ [1, [2]] | tojson(indent=1000000000) }}",
        "{{ ('a b ' * 100000) | wordwrap(1, wrapstring='x' * 1000000) }}",
        "{{ ('a\\n' * 100000) | indent(1000000) }}",
        "{{ ('\\t' * 100000).expandtabs(1000000) }}",
        "{{ ('a' * 1000000) | regex_replace('', 'x' * 1000000) }}",
        "{{ ('a' * 100000) | regex_replace('(.*)', '\\\\1' * 10000) }}",
        "{{ ('a' * 1000000).translate({97: 'x' * 1000000}) }}",
        "{{ ('x' * 100000) | map('center', 1000000) | list | length }}",
        "{{ ('x' * 100000) | map('replace', 'x', 'y' * 1000000) | list | length }}",
        "{% for a in 'x' * 1000000 %}{% for b in 'y' * 1000000 %}{{ b }}{% endfor %}{% endfor %}",
        "{% for a in 'x' * 1000000 %}" + "z" * 10000 + "{% endfor %}",
        "{% for x in [[1]] recursive %}{{ loop([x, x]) }}{% endfor %}",
    ],
)
def test_what_would_not_end_is_an_error_of_the_expression(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_template(text).render({})


SUBJECTS = ["1", "'ab'", "'x' * 900000", "[1] * 900000", "[[1, 2], [3]]", "{'a': 1}", "-7.5", "['x' * 1000] * 900"]
NUMBERS = ["0", "-1", "999999", "1000000000000"]
GIVEN = ["", *NUMBERS, "'x' * 900000", "'%s' * 9000", "[1] * 900000", "none", "{97: 'y' * 900000}"]
METHODS = {name for kind in (str, list, dict, int) for name in dir(kind) if name[0] != "_"}
CALLS = st.tuples(
    st.sampled_from(sorted({*environment().filters, *METHODS})),
    st.sampled_from(GIVEN),
    st.sampled_from(GIVEN),
    st.booleans(),
)


@settings(max_examples=30, deadline=None)
@drawn(subject=st.sampled_from(SUBJECTS), steps=st.lists(CALLS, min_size=1, max_size=3), statement=st.booleans())
def test_whatever_is_called_gives_something_of_limited_size_or_an_error(
    subject: str, steps: list[tuple[str, str, str, bool]], *, statement: bool
) -> None:
    expression = f"({subject})"
    for name, first, second, as_filter in steps:
        given = ", ".join(value for value in (first, second) if value)
        known = as_filter and name in environment().filters
        expression = f"({expression} | {name}({given}))" if known else f"{expression}.{name}({given})"
    text = f"{{% if true %}}{{{{ {expression} }}}}{{% endif %}}" if statement else f"{{{{ {expression} }}}}"

    with suppress(ExpressionError):
        assert len(compile_template(text).render({})) <= 10 * MAX_TEXT
