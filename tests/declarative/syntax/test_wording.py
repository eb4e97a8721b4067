import pytest

from cdk.base.values import Json
from cdk.declarative.components import register
from cdk.declarative.syntax.wording import an, named

register()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "nothing (null)"),
        (True, "true"),
        (5, "the number 5"),
        ("a", "the text 'a'"),
        ("a" * 100, f"the text '{'a' * 57}'..."),
        ([], "an empty list"),
        ([1], "a list"),
        ({}, "an object"),
        ({"type": "object"}, "an object"),
        ({"type": "OffsetIncrement"}, "an OffsetIncrement"),
    ],
)
def test_a_value_is_shown_as_its_author_knows_it(value: Json, said: str) -> None:
    assert said == named(value)


def test_names_have_their_article() -> None:
    assert [an("Paginator"), an("Extractor")] == ["a Paginator", "an Extractor"]
