import pytest

from cdk.declarative.interpolation.errors import ExpressionError
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
    ],
)
def test_ordinary_sizes_pass(text: str, expected: object) -> None:
    assert expected == compile_template(text).value({})
