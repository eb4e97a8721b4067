import pytest

from cdk.declarative.interpolation.build import build
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.interpolation.template import compile_template

TREE = {"items": [{"n": 1, "of": [1, 2]}, {"n": 2, "of": []}]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% for i in tree['items'] %}{{ i.n }}{% if not loop.last %};{% endif %}{% endfor %}", "1;2"),
        ("{% for i in tree['items'] %}{{ loop.length }}/{{ loop.index0 }} {% endfor %}", "2/0 2/1 "),
        ("{% for i in tree['items'] %}{% for j in i.of %}{{ j }}x{% else %}none{% endfor %}{% endfor %}", "1x2xnone"),
        ("{% for i in tree.missing %}x{% else %}y{% endfor %}", "y"),
        ("{% for key, value in tree.items() %}{{ key }}{% endfor %}", "items"),
        ("{% for i in tree['items'] if i.n > 1 %}n{{ i.n }}{% endfor %}", "n2"),
        ("{% set s = namespace(t=0) %}{% for i in tree['items'] %}{% set s.t = s.t + i.n %}{% endfor %}{{ s.t }}", 3),
        ("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(5) }}", [5]),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
    ],
)
def test_statements_work_as_in_jinja(text: str, expected: object) -> None:
    assert expected == compile_template(text).value({"tree": TREE})


def test_endless_loops_end_in_an_error() -> None:
    template = compile_template("{% for i in 'x' * 100000 %}{% for j in 'x' * 100000 %}{% endfor %}{% endfor %}")

    for _ in range(2):
        with pytest.raises(ExpressionError, match="take too many steps"):
            template.value({})


def test_a_variable_that_nothing_defines_is_named_with_the_nearest_spelling(caplog: pytest.LogCaptureFixture) -> None:
    build("{{ property == '' or raw_schema.type }}", "m.yaml:6 condition")
    build("{{ reponse.next }}{% for a in config.b %}{{ a }}{{ nowhere }}{% endfor %}", "m.yaml:7 url")

    other, near = caplog.messages
    assert near.startswith("m.yaml:7 url: the variable 'reponse' of {{ reponse.next }}")
    assert near.endswith("is not defined, so it is empty; did you mean 'response'?")
    assert "'nowhere'" in other
    assert "expressions know components_values, config, " in other


def test_a_parameter_that_nothing_defines_is_named_unless_the_expression_asks_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    optional = "{{ parameters.get('a') }}{{ parameters.b or 1 }}{{ parameters.c | default(2) }}"
    conditional = "{% if parameters.d %}{{ parameters.d }}{% endif %}{{ 1 if parameters['e'] else 2 }}"
    known = frozenset({"name"})
    build("{{ parameters.nam }}{% for a in parameters['xyz'] %}{{ a }}{% endfor %}", "m.yaml:7 url", known)
    build(f"{optional}{conditional}{{{{ parameters.name }}}}", "m.yaml:8 url", known)

    near, other = caplog.messages
    assert near.startswith("m.yaml:7 url: the parameter 'nam' of {{ parameters.nam }}")
    assert near.endswith("so it is empty; did you mean 'name'?")
    assert other.endswith("so it is empty; expressions know name")


def test_variables_of_the_language_and_of_expressions_without_a_place_are_no_slips(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("config", "parameters", "record", "response", "headers", "stream_slice", "next_page_token"):
        build(f"{{{{ {name}.x }}}}", "m.yaml:1")
    build("{{ own }}", "")

    assert caplog.messages == []
