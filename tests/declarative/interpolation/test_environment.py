import pytest

from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.interpolation.template import compile_template

SCOPE = {"config": {"secret": "hunter2", "_partition": 1}}


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ config.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{% set a = ''.__class__.__mro__ %}",
        "{{ range(3) }}",
        "{% import 'os' as os %}{{ os }}",
        "{{ ''.__len__() }}",
    ],
)
def test_ways_out_of_the_sandbox_are_errors(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_template(text).value(SCOPE)


@pytest.mark.parametrize(
    "text",
    [
        "{{ config.__class__ }}",
        "{{ config['__class__'] }}",
        "{{ now_utc.__globals__ }}",
        "{{ ''|attr('__class__') }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ [].append.__self__ }}",
    ],
)
def test_hidden_attributes_are_not_there(text: str) -> None:
    assert compile_template(text).value(SCOPE) == ""


def test_a_key_may_begin_with_an_underscore() -> None:
    assert compile_template("{{ config._partition }}").value(SCOPE) == 1
