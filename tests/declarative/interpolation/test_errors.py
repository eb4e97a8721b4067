import pytest

from cdk.base.errors import ManifestError
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.interpolation.template import compile_template

SCOPE = {"config": {"secret": "hunter2", "hunter2": {}}, "record": {"hunter2": 1}}


def error_of(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        compile_template(text, "streams[0].url").value(SCOPE)
    return caught.value


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    error = error_of("{{ recrod.id }}")

    assert (
        str(error)
        == "streams[0].url: expression '{{ recrod.id }}': 'recrod' is not defined here; did you mean 'record'?"
    )
    assert isinstance(error, ManifestError)


@pytest.mark.parametrize("text", ["{{ foo if false else 1 }}", "{{ 1 or foo }}", "{% if false %}{{ foo }}{% endif %}"])
def test_an_unknown_name_is_an_error_also_where_it_is_not_reached(text: str) -> None:
    assert error_of(text).why == "'foo' is not defined here; there is 'config', 'record'"


def test_a_macro_is_among_the_nearest() -> None:
    assert error_of("{{ now_utcc() }}").why == "'now_utcc' is not defined here; did you mean 'now_utc'?"


def test_a_missing_value_on_the_way_is_named() -> None:
    assert (
        error_of("{{ config.missing.x }}").why
        == "it reads from `config.missing`, which is missing; there is 'secret', 'hunter2'"
    )
    assert error_of("{{ record.a.b.c }}").why == "it reads from `record.a`, which is missing; there is 'hunter2'"


@pytest.mark.parametrize(
    "text",
    [
        "{{ config[config.secret].x.y }}",
        "{{ config.secret + 1 }}",
        "{{ timestamp(config.secret) }}",
        "{{ (config.secret|int) / 0 }}",
        "{{ today_with_timezone(config.secret) }}",
        "{{ config.secret.missing.x }}",
        "{{ record[config.secret](**config) }}",
        "{{ record|map(config.secret)|list }}",
        "{{ dict(**{config.secret: 1})[config.secret].x.y }}",
        "{{ max(**{config.secret: 1}) }}",
    ],
)
def test_errors_hold_no_value_of_the_scope(text: str) -> None:
    error = error_of(text)

    assert "hunter2" not in f"{error} {error.detail}"
    assert error.__suppress_context__


def test_long_expressions_are_cut_in_errors() -> None:
    assert len(str(error_of("{{ foo" + " ~ 'x'" * 100 + " }}"))) < 350


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{{ record.id ", "unexpected end of template, expected 'end of print statement'"),
        ("a\n{{ 'x' 5 }}", "line 2: expected token 'end of print statement', got 'integer'"),
        ("{{ 1|base64encod }}", "unknown filter 'base64encod'; did you mean 'base64encode'?"),
        ("{{ 1 is strin }}", "unknown test 'strin'; did you mean 'string'?"),
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "it is nested too deeply"),
        (
            "{{ stream_state['x'] }}",
            "`stream_state` was removed from the language; use `stream_interval`, the slice being read",
        ),
    ],
)
def test_mistakes_are_told_when_the_manifest_is_loaded(text: str, why: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_template(text, "here")

    assert ("here", why) == (caught.value.path, caught.value.why)
