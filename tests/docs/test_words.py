"""Names and messages are the field's words (CONTRIBUTING.md): the household words among them may only become fewer."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

CODE = Path(__file__).parents[2] / "cdk"
# fmt: off
HOUSEHOLD = frozenset({
    "ask", "asked", "at_once", "begun", "dealer", "dealt", "found", "freeze", "given", "going_on", "gone", "hear",
    "heard", "hearing", "here", "hurry", "kept", "known_answers", "left", "made", "mend", "moment", "moments", "news",
    "one", "ours", "patience", "place", "polite", "said", "say", "says", "seen", "settle", "several", "slip", "slips",
    "span", "spans", "spoke", "straight", "take", "talk", "tell", "tells", "thaw", "there", "told", "took", "unseen",
    "unwilling", "vanished", "want", "wanted", "whole",
})
# fmt: on
MOST = 12
"""How many there are. Lower it where you have made them fewer; never raise it."""


def names(node: ast.AST) -> Iterator[str]:
    """The names that a node defines."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from (node.name, *(argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)))
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.Attribute(ctx=ast.Store()):
            yield node.attr
        case ast.ClassDef():
            yield node.name.lower()
        case _:
            return


def test_household_words_as_names_become_fewer() -> None:
    words = Counter(
        word
        for file in CODE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for name in names(node)
        if (word := name.strip("_").lower()) in HOUSEHOLD
    )

    assert words.total() <= MOST, words.most_common()


IN_MESSAGES = re.compile(
    r"\b(anew|asked for|a text|begun|comes? twice|goes on|go on|going on|gone|(?:is|was|were) cut|kept|moments?"
    r"|said|says|tells?|told)\b"
)
MOST_IN_MESSAGES = 11
"""How many of these are in errors and logs. Lower it where you have made them fewer; never raise it."""


def messages(tree: ast.AST) -> Iterator[str]:
    """The strings of what is raised and logged."""
    for node in ast.walk(tree):
        match node:
            case ast.Raise(exc=ast.expr() as message):
                yield from strings(message)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="logger"))):
                yield from strings(node)
            case _:
                pass


def strings(node: ast.AST) -> Iterator[str]:
    """The strings in a node, and the parts of its formatted ones."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def test_household_words_in_messages_become_fewer() -> None:
    words = Counter(
        word
        for file in CODE.rglob("*.py")
        for message in messages(ast.parse(file.read_text()))
        for word in IN_MESSAGES.findall(message)
    )

    assert words.total() <= MOST_IN_MESSAGES, words.most_common()
