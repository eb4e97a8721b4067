"""What the docstring of a component says: its words, and its example."""

from dataclasses import dataclass
from inspect import cleandoc
from textwrap import dedent

from pydantic import BaseModel

from cdk.declarative.components.custom import CustomComponent


@dataclass(frozen=True, slots=True)
class ComponentDocs:
    """text: what it is, in paragraphs. example: YAML, empty where there is none."""

    text: str
    example: str


def component_docs(model: type[BaseModel]) -> ComponentDocs:
    """What a model's own docstring says. Custom code that shows no example needs no more than its class."""
    text, _, example = cleandoc(vars(model).get("__doc__") or "").partition("\nExample:\n")
    if not example and issubclass(model, CustomComponent):
        example = f"type: {model.__name__}\nclass_name: components.{model.__name__.replace('Custom', 'My')}"
    return ComponentDocs(text.strip(), dedent(example).strip())
