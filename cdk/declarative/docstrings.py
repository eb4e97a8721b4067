"""What the docstring of a component says: its words, and its example."""

from dataclasses import dataclass
from inspect import cleandoc
from textwrap import dedent

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Told:
    """text: what it is, in paragraphs. example: YAML, empty where there is none."""

    text: str
    example: str


def told(model: type[BaseModel]) -> Told:
    """What a model's own docstring says."""
    text, _, example = cleandoc(vars(model).get("__doc__") or "").partition("\nExample:\n")
    return Told(text.strip(), dedent(example).strip())
