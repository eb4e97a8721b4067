import pytest

from cdk.base.values import Json
from cdk.declarative.interpolation.errors import ExpressionError
from cdk.declarative.interpolation.template import compile_template

FILTERED: list[tuple[str, Json]] = [
    ("'a'|hash", "0cc175b9c0f1b6a831c399e269772661"),
    ("'a'|hash('md5','salt')", "f4ffb581db4c299561399fc62138537e"),
    ("'a'|hash('sha256')", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
    ("5|hash", "e4da3b7fbbce2345d7772b0674a318d5"),
    ("'a'|base64encode", "YQ=="),
    ("'YQ=='|base64decode", "a"),
    ("'a'|base64binascii_decode", "YQ=="),
    ("'5'|string", 5),
    ("5|string", "5"),
    ("[1,2]|string", "[1, 2]"),
    ("{'x':1}|string", '{"x": 1}'),
    ("none|string", "null"),
    ("5|string ~ 'x'", '"""5"""x'),
    ("[1,2]|map('string')|list", ['"""1"""', '"""2"""']),
    ("'abc123'|regex_search('([0-9]+)')", 123),
    ("'abc123'|regex_search('[0-9]+')", ""),
    ("'abc'|regex_search('([0-9]+)')", ""),
    ("'abc'|regex_search('b(z)?')", None),
    ("'abc123'|regex_replace('([0-9])','<\\\\1>')", "abc<1><2><3>"),
    ("'a'|hmac('k')", "78da91511e675587f5b9df78bedebaf5560da2abb88162ee875dcdf744951d9e"),
    ("'a'|hmac(5)", "c2f7afe4336aa82a28789482f8b3399d92acf0aa419c71ce3febcc3500e32904"),
    ("'a b'|urlencode", "a%20b"),
    ("[3,1]|sort", [1, 3]),
    ("[1,2]|join(',')", (1, 2)),
    ("'2024-01-01'|replace('-','/')", "2024/01/01"),
    ("nothing.x|default('d')", "d"),
    ("{'x':1}|tojson", {"x": 1}),
    ("'<b>'|e", "&lt;b&gt;"),
]


@pytest.mark.parametrize(("expression", "expected"), FILTERED)
def test_filters_answer_as_manifests_expect(expression: str, expected: Json) -> None:
    assert expected == compile_template(f"{{{{ {expression} }}}}").value({"nothing": {}})


@pytest.mark.parametrize("expression", ["s|hash(s)", "s|hmac('k', s)", "s|base64decode"])
def test_what_a_filter_refuses_is_an_error_without_the_value(expression: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_template(f"{{{{ {expression} }}}}").value({"s": "hunter2"})

    assert "hunter2" not in str(caught.value)


def test_a_rendered_text_shows_no_quotes_of_the_string_filter() -> None:
    assert compile_template("{{ 5|string }}").render({}) == "5"
