from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field

from cdk.declarative.model.component_docs import ComponentDocs, component_docs

Header: TypeAlias = Annotated[str, Meta(description="A header.")]


class Shown(Struct):
    """What it is.

    And more.

    Example:
        type: Shown
        a:
          b: 1
    """

    first: Header = ""
    second: int = field(name="2nd", default=0)
    """Inherited."""


class Silent(Shown):
    told: Header = ""
    """A field
    of two lines.
    """
    untold: int = 0


def test_words_and_example_are_told_apart() -> None:
    assert component_docs(Shown) == ComponentDocs(
        "What it is.\n\nAnd more.", "type: Shown\na:\n  b: 1", {"first": "A header.", "2nd": "Inherited."}
    )


def test_fields_are_inherited_but_not_a_docstring() -> None:
    docs = component_docs(Silent)

    assert (docs.text, docs.example) == ("", "")
    assert docs.fields == {"first": "A header.", "2nd": "Inherited.", "told": "A field of two lines.", "untold": ""}
