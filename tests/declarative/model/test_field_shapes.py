from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct, field

from cdk.declarative.components import register
from cdk.declarative.model.component import ONE_OR_MANY, Component
from cdk.declarative.model.field_shapes import (
    AnyOf,
    Anything,
    Choice,
    Either,
    ListOf,
    MapOf,
    Nothing,
    Part,
    Scalar,
    Shape,
    fields_of,
    open_to_more,
    parts_of,
    shape_of,
    words,
)
from cdk.declarative.model.request_plug_points import AnyDecoder, AnyPaginationStrategy

register()
OPTION = Component.registry["RequestOption"]


class Plain(Struct, kw_only=True):
    """A model that is no component."""

    text: str = "x"
    names: list[str] = field(default_factory=list)
    much: Annotated[int, Meta(ge=2)] = field(name="manyMore")


@pytest.mark.parametrize(
    ("annotation", "shape", "said"),
    [
        (Any, Anything(), "anything"),
        (None, Nothing(), "null"),
        (str, Scalar(str), "a string"),
        (int | None, Either((Scalar(int), Nothing())), "an integer"),
        (Literal["a", "b"], Choice(("a", "b")), "one of 'a', 'b'"),
        (Literal["a"], Choice(("a",)), "'a'"),
        (list[str], ListOf(Scalar(str)), "a list of strings"),
        (tuple[bool, ...], ListOf(Scalar(bool)), "a list, each true or false"),
        (list[list[str]], ListOf(ListOf(Scalar(str))), "a list of lists of strings"),
        (list[str | int], ListOf(Either((Scalar(str), Scalar(int)))), "a list of strings or integers"),
        (dict[str, Any], MapOf(Anything()), "an object"),
        (Mapping[str, str], MapOf(Scalar(str)), "an object of strings"),
        (OPTION, Part(OPTION), "a RequestOption"),
        (AnyDecoder, AnyOf(AnyDecoder), "a Decoder"),
        (list[AnyDecoder], ListOf(AnyOf(AnyDecoder)), "a list of Decoders"),
        (list[AnyPaginationStrategy], ListOf(AnyOf(AnyPaginationStrategy)), "a list of PaginationStrategies"),
        (AnyDecoder | None, Either((AnyOf(AnyDecoder), Nothing())), "a Decoder"),
        (
            Annotated[list[AnyDecoder], ONE_OR_MANY],
            ListOf(AnyOf(AnyDecoder), alone=True),
            "a Decoder, or a list of them",
        ),
        (str | dict[str, Any] | list[str], None, "a string, an object or a list of strings"),
    ],
)
def test_an_annotation_has_a_shape_and_words(annotation: object, shape: Shape | None, said: str) -> None:
    made = shape_of(annotation)

    assert shape in {None, made}
    assert said == words(made)


def test_fields_are_known_by_their_names_in_a_manifest() -> None:
    fields = fields_of(Plain)

    assert list(fields) == ["text", "names", "manyMore"]
    assert [field.default for field in fields.values()] == ["x", [], None]
    assert [field.required for field in fields.values()] == [False, False, True]
    assert Scalar(int, (("minimum", 2),)) == fields["manyMore"].shape


def test_names_of_classes_that_come_later_are_found() -> None:
    assert Component.registry["ComplexFieldType"] in parts_of(Component.registry["TypesMap"])


def test_what_hands_fields_to_code_of_its_own_takes_any() -> None:
    assert open_to_more(Component.registry["CustomRetriever"])
    assert not open_to_more(Component.registry["SimpleRetriever"])
