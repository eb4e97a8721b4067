from pydantic import BaseModel

from cdk.authoring.docstrings import ComponentDocs, component_docs


class Shown(BaseModel):
    """What it is.

    And more.

    Example:
        type: Shown
        a:
          b: 1
    """


class Silent(Shown):
    pass


def test_words_and_example_are_told_apart() -> None:
    assert ComponentDocs("What it is.\n\nAnd more.", "type: Shown\na:\n  b: 1") == component_docs(Shown)


def test_a_docstring_is_not_inherited() -> None:
    assert ComponentDocs("", "") == component_docs(Silent)
